"""The aims, the figures before the engines were rewritten, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from benchmarks.consensus import BASE, Size, name_of
from benchmarks.earlier import EARLIER
from benchmarks.formats import fastest, gigabytes, milliseconds, table, times
from benchmarks.peers import DECENT, FLOWER

Cells = Mapping[str, Mapping[str, Any]]
OPACUS = ("opacus", "opacus-ghost")
BEFORE = {"dp-norm": 0.152}  # seconds per round on the page before, if the earlier source cannot be run
LINEAR = 1.25  # the time per node may be this much longer than for a tenth or a hundredth of the nodes


class Value(NamedTuple):
    """What was measured, as a number to compare with the aim and as the text of the table."""

    number: float
    text: str


class Missing(Exception):
    """A value was not measured; the message gives the reason."""


@dataclass(frozen=True)
class Aim:
    """One line of the table; `before` is the figure before the engines were rewritten."""

    work: str
    aim: str
    limit: float
    before: str
    value: Callable[[Cells], Value]
    at_most: bool = False

    def is_met(self, value: Value) -> bool:
        return value.number <= self.limit if self.at_most else value.number >= self.limit

    def row(self, cells: Cells) -> list[str]:
        try:
            value = self.value(cells)
        except Missing as reason:
            return [self.work, self.aim, self.before, "", f"not measured: {reason}"]
        return [self.work, self.aim, self.before, value.text, "met" if self.is_met(value) else "**not met**"]


def measured(cells: Cells, key: str) -> Mapping[str, Any]:
    """Return the contenders of a cell."""
    if key not in cells:
        raise Missing("not part of this run")
    if "reason" in cells[key]:
        raise Missing(cells[key]["reason"])
    found: Mapping[str, Any] = cells[key]["measured"]
    return found


def against(key: str, others: tuple[str, ...], *, memory: bool = False) -> Callable[[Cells], Value]:
    """Return how many times as fast Tacit is as the fastest of the others."""

    def value(cells: Cells) -> Value:
        found = measured(cells, key)
        other = fastest(found, others)
        if other is None:
            raise Missing(f"{' and '.join(others)} did not run")
        ratio = other["seconds"] / found["tacit"]["seconds"]
        sizes = (gigabytes(each) for each in (found["tacit"], other))
        note = " ({:.1f} GB, Opacus {:.1f} GB)".format(*sizes) if memory else ""
        return Value(ratio, f"{times(ratio)}{note}")

    return value


def fixed_cost(cells: Cells) -> Value:
    found = measured(cells, "small/fixed cost")
    now, before = found["quadratics5"]["seconds"], found.get(f"{EARLIER}quadratics5")
    note = f" (the earlier source: {milliseconds(before['seconds'])})" if before else ""
    return Value(1e3 * now, milliseconds(now) + note)


def earlier_seconds(cells: Cells, method: str) -> float:
    """Return the seconds per round of the earlier source, measured in the same run where possible."""
    before = measured(cells, f"convex/{method}").get(EARLIER + method)
    if before is None and method not in BEFORE:
        raise Missing("the earlier source is not available")
    return float(before["seconds"]) if before else BEFORE[method]


def speed_up(method: str) -> Callable[[Cells], Value]:
    def value(cells: Cells) -> Value:
        before, now = earlier_seconds(cells, method), measured(cells, f"convex/{method}")[method]["seconds"]
        steps = f"{milliseconds(before)} → {milliseconds(now)} per round"
        return Value(before / now, f"{times(before / now)} ({steps})")

    return value


def per_cell(method: str) -> Callable[[Cells], Value]:
    """Compare a round of one of several runs that are computed together with a round of the earlier source."""

    def value(cells: Cells) -> Value:
        found, before = measured(cells, f"convex/{method} cells"), earlier_seconds(cells, method)
        together, alone = (found[how]["seconds"] for how in ("together", "alone"))
        note = f"{milliseconds(together)} per round and cell; {times(alone / together)} the same runs one by one now"
        return Value(before / together, f"{times(before / together)} ({note})")

    return value


def consensus(cells: Cells) -> Value:
    found = measured(cells, "consensus/10,000 × 1,000")
    ours = found[name_of("laplace", BASE)]["seconds"]
    least = fastest(found, ("copy+laplace", "copy+own"))
    assert least is not None
    return Value(ours / least["seconds"], f"{times(ours / least['seconds'])} ({milliseconds(ours)})")


def memory(size: Size) -> Callable[[Cells], Value]:
    def value(cells: Cells) -> Value:
        found = measured(cells, f"large/{name_of('laplace', size)}")[name_of("laplace", size)]
        return Value(gigabytes(found), f"{gigabytes(found):.1f} GB, {milliseconds(found['seconds'])} per round")

    return value


def linear_growth(size: Size, base: Size) -> Callable[[Cells], Value]:
    def value(cells: Cells) -> Value:
        names = [name_of("laplace", each) for each in (size, base)]
        large, small = (measured(cells, f"large/{name}")[name]["seconds"] for name in names)
        ratio = (large / size[0]) / (small / base[0])
        return Value(ratio, f"{times(ratio)} the time per node of {base[0]:,} nodes")

    return value


def ranks(cells: Cells) -> Value:
    """Return the smallest speed-up of two ranks among the graphs."""
    ratios = []
    for key, cell in cells.items():
        if key.startswith("networks/ranks") and "ranks" in cell:
            seconds = {each["ranks"]: each["seconds"] for each in cell["ranks"]}
            ratios.append(seconds[1] / seconds[2])
    if not ratios:
        raise Missing("not part of this run")
    return Value(min(ratios), f"{times(min(ratios))} to {times(max(ratios))}")


def messages(cells: Cells) -> Value:
    """Return the median share of bare TLS that messages between sites reach in the same turn, by elapsed time."""
    speeds = cells.get("networks/sites", {}).get("speeds")
    if speeds is None:
        raise Missing(cells.get("networks/sites", {}).get("reason", "not part of this run"))
    share = median(ours[0] / bare[0] for ours, bare in zip(speeds["sites"], speeds["bare TLS"], strict=True))
    return Value(share, f"{share:.0%} ({median(each[0] for each in speeds['sites']):.0f} MB/s)")


def models() -> list[Aim]:
    """Return the aims for training, clipping every record unless the line says otherwise."""
    aims = []
    for n in (10, 100):
        key, loop = f"cnn/cnn n={n} record", f"cnn/cnn n={n} batch"
        aims.append(Aim(f"CNN, n = {n}: faster Opacus", "≥ 3.5×", 3.5, "1.8 to 2.3×", against(key, OPACUS)))
        aims.append(Aim(f"CNN, n = {n}, batch clip: loop", "≥ 1.8×", 1.8, "0.7 to 1.05×", against(loop, ("loop",))))
    opacus, written = {"logistic": ("3.5×", "9.3×"), "mlp": ("3.2×", "4.3×")}, {"logistic": "1.2×", "mlp": "1.0×"}
    for model, title in (("logistic", "logistic"), ("mlp", "MLP")):
        key, small, large = f"linear/{model} n={{}} record".format, *opacus[model]
        aims.append(Aim(f"{title}, n = 10: faster Opacus", "≥ 6×", 6, small, against(key(10), OPACUS)))
        for n in (100, 1000):
            aims.append(Aim(f"{title}, n = {n}: faster Opacus", "≥ 10×", 10, large, against(key(n), OPACUS)))
            hand = against(key(n), ("handwritten",))
            aims.append(Aim(f"{title}, n = {n}: hand-written step", "≥ 1.5×", 1.5, written[model], hand))
    resnet = against("resnet/resnet18 n=4 record", OPACUS, memory=True)
    return [*aims, Aim("ResNet-18, n = 4, batch 32: faster Opacus", "≥ 2×", 2, "not measured", resnet)]


def rounds() -> list[Aim]:
    """Return the aims for small rounds, the published experiments and many nodes."""
    decent, flower = (against(f"small/{peer.title}", ("peer",)) for peer in (DECENT[100], FLOWER))
    aims = [
        Aim("DGD quadratics, d = 10, n = 100: decent-bench", "≥ 20×", 20, "3.8 to 5.2×", decent),
        Aim("logistic, 57 parameters, n = 100: Flower", "≥ 1500×", 1500, "435 to 572×", flower),
        Aim("fixed cost per round", "≤ 0.4 ms", 0.4, "2.0 ms", fixed_cost, at_most=True),
    ]
    for method, title, before in (("dp-norm", "DP-Norm", "152 ms per round"), ("dp-sgd", "DP-SGD", "not measured")):
        aims.append(Aim(f"{title}, convex, as published: the earlier source", "≥ 2×", 2, before, speed_up(method)))
        aims.append(Aim(f"{title}, cells with the same data and draws", "≥ 4×", 4, before, per_cell(method)))
    many = "10,000 × 1,000, Laplace noise and mixing: copy and noise"
    aims.append(Aim(many, "≤ 1.3×", 1.3, "1.42 to 1.58× (Gaussian)", consensus, at_most=True))
    for nodes, d in ((100_000, 1_000), (1_000_000, 100)):
        title = f"{nodes:,} × {d:,}"
        growth = linear_growth((nodes, d), (10_000, d))
        aims.append(Aim(f"{title}: peak memory", "≤ 24 GB", 24, "not measured", memory((nodes, d)), at_most=True))
        aims.append(Aim(f"{title}: linear growth", f"≤ {LINEAR}×", LINEAR, "not measured", growth, at_most=True))
    aims.append(Aim("10,000 nodes, 650 parameters: 2 ranks against 1", "≥ 1×", 1, "1.4 to 1.7×", ranks))
    return [*aims, Aim("messages of 4 MB between sites: bare TLS", "≥ 80 %", 0.8, "86 %", messages)]


def lines(cells: Cells) -> list[str]:
    """Return the table of the aims."""
    head = ["work: compared with", "aim", "before", "now", ""]
    return table(head, (aim.row(cells) for aim in [*models(), *rounds()]))
