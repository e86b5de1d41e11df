"""The measured part of docs/benchmarks.md, from the results of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import aims, cluster, graphs, transport
from benchmarks.consensus import name_of
from benchmarks.formats import fastest, gigabytes, milliseconds, rate, table, times
from benchmarks.limits import COPIED, SIDE
from benchmarks.published import CLASSES, FLOPS, NODES, ROUNDS, STEPS
from benchmarks.transport import Speed

Cells = Mapping[str, Mapping[str, Any]]
TITLES = {
    "tacit": "Tacit",
    "handwritten": "hand-written",
    "opacus": "Opacus, hooks",
    "opacus-ghost": "Opacus, ghost",
    "loop": "plain loop",
}
MODELS = {
    "logistic": "logistic, 7,850",
    "mlp": "MLP, 50,890",
    "cnn": "CNN, 26,010",
    "resnet18": "ResNet-18, 11.2 million",
}


def page(results: Mapping[str, Any]) -> str:
    """Return all sections; `results` is the content of the JSON file."""
    cells: Cells = results["cells"]
    sections = {
        "Aims": aims.lines(cells),
        "Training": training(cells),
        "Peers": peers(cells),
        "Published convex experiments": convex(cells),
        "Many nodes": many(cells),
        "Growth": growth(cells),
        "Where the time goes": profile(cells),
        "Graph learners": learners(cells),
        "Networks": networks(cells),
    }
    parts = [f"Machine: {results['machine']}. {versions(results)}\n"]
    for title, lines in sections.items():
        parts += [f"## {title}\n", *lines] if lines else []
    return "\n".join(parts).rstrip() + "\n"


def versions(results: Mapping[str, Any]) -> str:
    """Describe when the run was made, and the versions of everything that was compared."""
    cells = results["cells"].values()
    found = {name: text for name, text in results["versions"].items() if name != "tacit"}
    for cell in cells:
        if cell.get("version"):
            found[cell.get("title", "pygsp2").split(",")[0]] = cell["version"]
    spent = sum(cell["spent"] for cell in cells) / 60
    listed = ", ".join(f"{name} {text}" for name, text in found.items())
    return f"Measured on {results['began'][:10]} in {spent:.0f} minutes. Versions: {listed}."


def of_row(cells: Cells, row: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and contents of the cells of a row."""
    for key, cell in cells.items():
        if key.startswith(f"{row}/"):
            yield key.removeprefix(f"{row}/"), cell


def missing(cells: Cells, *rows: str) -> list[str]:
    """Return a sentence for every cell that could not be measured."""
    return [
        f"Not measured: {name} ({cell['reason']}).\n"
        for row in rows
        for name, cell in of_row(cells, row)
        if "reason" in cell
    ]


def training(cells: Cells) -> list[str]:
    head = ["model, parameters", "clip per", "n", *(f"{title}: rounds/s (MB)" for title in TITLES.values())]
    head += ["Tacit ÷ hand-written", "Tacit ÷ the faster Opacus", "Tacit ÷ loop"]
    rows = [_case(cell) for row in ("cnn", "linear", "resnet") for _, cell in of_row(cells, row) if "measured" in cell]
    return [*table(head, rows), *missing(cells, "cnn", "linear", "resnet")]


def _case(cell: Mapping[str, Any]) -> list[str]:
    found, case = cell["measured"], cell["case"]
    others = [fastest(found, names) for names in (["handwritten"], ["opacus", "opacus-ghost"], ["loop"])]
    title = MODELS[case["model"]] + (f", batch {case['batch']}" if case["batch"] != 64 else "")
    rates = [rate(found.get(name)) for name in TITLES]
    return [title, case["clip"], str(case["n"]), *rates, *(_ratio(other, found["tacit"]) for other in others)]


def _ratio(other: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> str:
    return "" if other is None else f"**{times(other['seconds'] / ours['seconds'])}**"


def peers(cells: Cells) -> list[str]:
    rows = []
    for row in ("small", "others"):
        for _, cell in of_row(cells, row):
            if "peer" in cell.get("measured", {}):
                theirs, ours = cell["measured"]["peer"], cell["measured"]["tacit"]
                rows.append([f"{cell['title']}", rate(theirs), rate(ours), _ratio(theirs, ours)])
    head = ["peer and work", "peer: rounds/s (MB)", "Tacit: rounds/s (MB)", "Tacit ÷ peer"]
    return [*table(head, rows), *missing(cells, "small", "others")]


def convex(cells: Cells) -> list[str]:
    rows, lines = [], []
    for method in ("dp-norm", "dp-sgd"):
        found = cells.get(f"convex/{method}", {}).get("measured", {})
        stacked = cells.get(f"convex/{method} cells", {})
        together = stacked["measured"]["together"]["seconds"] if "measured" in stacked else None
        before, now = found.get(f"earlier:{method}"), found.get(method)
        each = [milliseconds(one["seconds"]) if one else "" for one in (before, now)]
        alone = milliseconds(stacked["measured"]["alone"]["seconds"]) if together else ""
        cells_text = f"{milliseconds(together)} ({stacked['cells']} cells)" if together else ""
        total = f"{ROUNDS * now['seconds']:.0f} s" if now else ""
        rows.append([method, *each, total, alone, cells_text])
        if "products" in found:
            lines.append(_products(found))
    head = ["method", "earlier source, per round", "now, per round", f"{ROUNDS:,} rounds"]
    head += ["run by `reproduce` one by one, per round", "together, per round and cell"]
    filled = [row for row in rows if any(row[1:])]
    return [*table(head, filled), *lines, *missing(cells, "convex")]


def _products(found: Mapping[str, Any]) -> str:
    now, products = found["dp-norm"]["seconds"], found["products"]["seconds"]
    least = FLOPS * found["sgemm"]["seconds"] / (2 * SIDE**3)
    return (
        f"A round of DP-Norm has {NODES * STEPS} local steps. Its matrix products alone, one call for all nodes each, "
        f"take {milliseconds(products)}, and would take {milliseconds(least)} ({least / now:.0%} of the round) at the "
        f"machine's sgemm rate, which products with {CLASSES} outputs do not reach.\n"
    )


def many(cells: Cells) -> list[str]:
    lines = []
    limits = cells.get("consensus/limits", {}).get("measured")
    if limits:
        flops, bytes_ = 2 * SIDE**3 / limits["sgemm"]["seconds"], 2 * 4 * COPIED / limits["copy"]["seconds"]
        lines.append(f"Limits of the machine: sgemm {flops / 1e9:.0f} GFLOP/s, copy {bytes_ / 1e9:.1f} GB/s.\n")
    found = cells.get("consensus/10,000 × 1,000", {}).get("measured", {})
    titles = {
        name_of("laplace", (10_000, 1_000)): "Laplace noise, ledger and mixing",
        "copy+own": "copy and Laplace noise of Tacit's generator",
        "copy+laplace": "copy and Laplace noise of torch's generator",
        "gaussian": "Gaussian noise, ledger and mixing",
        "copy+gaussian": "copy and Gaussian noise of torch's generator",
    }
    rows = [[text, milliseconds(found[name]["seconds"])] for name, text in titles.items() if name in found]
    lines += table(["10,000 nodes × 1,000 parameters", "per round"], rows)
    rows = []
    for name, cell in of_row(cells, "large"):
        if "measured" in cell:
            one, (kind, size) = cell["measured"][name], name.split("-")
            nodes, d = map(int, size.split("x"))
            what = "noise and mixing" if kind == "laplace" else "training"
            per_value = f"{1e9 * one['seconds'] / nodes / d:.1f} ns"
            rows.append([f"{nodes:,} × {d:,}", what, milliseconds(one["seconds"]), per_value, f"{gigabytes(one):.1f}"])
    head = ["nodes × parameters", "round", "per round", "per parameter and node", "peak memory (GB)"]
    return [*lines, *table(head, rows), *missing(cells, "consensus", "large")]


def growth(cells: Cells) -> list[str]:
    """Compare every size with the one before it."""
    rows: list[list[str]] = []
    last: tuple[str, float, float] | None = None
    for name, cell in of_row(cells, "growth"):
        if "measured" in cell:
            what, size = name.split(" = ")
            one, value = cell["measured"]["tacit"], float(size.replace(",", ""))
            follows = last is not None and last[0] == what
            ratios = [times(value / last[1]), times(one["seconds"] / last[2])] if last and follows else ["", ""]
            rows.append([what, size, milliseconds(one["seconds"]), f"{one['memory']:,.0f}", *ratios])
            last = what, value, one["seconds"]
    head = ["what grows", "size", "per round", "MB", "size ÷ row above", "time ÷ row above"]
    return [*table(head, rows), *missing(cells, "growth")]


def profile(cells: Cells) -> list[str]:
    found = {name: cell["shares"] for name, cell in of_row(cells, "profile") if "shares" in cell}
    parts = next(iter(found.values()), {})
    rows = [[part, *(f"{shares[part]:.0%}" for shares in found.values())] for part in parts]
    return [*table(["part of a round", *found], rows), *missing(cells, "profile")]


def learners(cells: Cells) -> list[str]:
    found = [cell for name, cell in of_row(cells, "others") if name.startswith("pygsp2") and "d" in cell]
    return graphs.lines(found)


def networks(cells: Cells) -> list[str]:
    rows = [each for _, cell in of_row(cells, "networks") for each in cell.get("ranks", [])]
    speeds = cells.get("networks/sites", {}).get("speeds")
    lines = [*cluster.lines(rows), ""] if rows else []
    if speeds:
        lines += [transport.table({name: [Speed(*each) for each in turns] for name, turns in speeds.items()}), ""]
    return [*lines, *missing(cells, "networks")]
