"""The measurements as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.graphs import lines
from benchmarks.limits import SIDE
from benchmarks.published import sentence

Row = Mapping[str, Any]
TITLES = {
    "tacit": "Tacit",
    "handwritten": "hand-written",
    "opacus": "Opacus, hooks",
    "opacus-ghost": "Opacus, ghost",
    "loop": "plain loop",
}
MODELS = {"logistic": "logistic, 7,850", "mlp": "MLP, 50,890", "cnn": "CNN, 26,010"}


def page(results: Row) -> str:
    """Return all tables; `results` is the content of the JSON file."""
    parts = [
        "| model, parameters | clip per | n | " + " | ".join(f"{t}: rounds/s (MB)" for t in TITLES.values()) + " | "
        "Tacit ÷ hand-written | Tacit ÷ the faster Opacus | Tacit ÷ loop |",
        "|---|---|---|" + "---|" * (len(TITLES) + 3),
        *(_case(row) for row in results["cases"]),
        "",
        _limits(results["limits"]),
        "",
        *_published(results),
        "| peer and work | peer: rounds/s (MB) | Tacit: rounds/s (MB) | Tacit ÷ peer |",
        "|---|---|---|---|",
        *(_peer(row) for row in results["peers"]),
        "",
        *lines(results.get("graphs", [])),
        "| size (logistic, except for the rows with other d; per record) | seconds per round | MB |",
        "|---|---|---|",
        *(f"| {row['what']} | {number(row['seconds'])} | {row['memory']:.0f} |" for row in results["growth"]),
    ]
    return "\n".join(parts) + "\n"


def _case(row: Row) -> str:
    found = row["measured"]
    cells = [_rate(found.get(name)) for name in TITLES]
    both = [found[name] for name in ("opacus", "opacus-ghost") if name in found]
    others = [found.get("handwritten"), min(both, key=lambda m: m["seconds"], default=None), found.get("loop")]
    ratios = [_ratio(other, found["tacit"]) for other in others]
    return _line([MODELS[row["model"]], row["clip"], str(row["n"]), *cells, *ratios])


def _limits(limits: Row) -> str:
    times = {name: limits[name]["seconds"] for name in limits}
    return (
        f"Limits of the machine in the same run: sgemm {2 * SIDE**3 / times['sgemm'] / 1e9:.0f} GFLOP/s, "
        f"copy {2 * 4 * 2**26 / times['copy'] / 1e9:.1f} GB/s (read and write).\n\n"
        f"10,000 nodes × 1,000 parameters, noise and mixing: {1e3 * times['consensus']:.0f} ms per round, "
        f"**{times['consensus'] / times['copy+noise']:.2f}×** a copy with torch's noise "
        f"({1e3 * times['copy+noise']:.0f} ms); {limits['consensus']['memory']:.0f} MB."
    )


def _published(results: Row) -> list[str]:
    """Return the line on DP-Norm's experiment, or nothing if an earlier run did not measure it."""
    if "published" not in results:
        return []
    seconds = {name: measured["seconds"] for name, measured in results["published"].items()}
    return [sentence(seconds, 2 * SIDE**3 / seconds["sgemm"]), ""]


def _peer(row: Row) -> str:
    if "reason" in row:
        return _line([row["title"], f"not measured: {row['reason']}", "", ""])
    return _line(
        [row["title"], _rate(row["theirs"]), _rate(row["ours"]), _ratio(row["theirs"], row["ours"])],
    )


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rate(measured: Row | None) -> str:
    return "" if measured is None else f"{number(1 / measured['seconds'])} ({measured['memory']:.0f})"


def _ratio(other: Row | None, ours: Row) -> str:
    return "" if other is None else f"**{number(other['seconds'] / ours['seconds'])}×**"


def number(value: float) -> str:
    """Format a value with three significant digits."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value < 100 else 0
    return f"{value:,.{digits}f}"
