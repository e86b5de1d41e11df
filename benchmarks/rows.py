"""What a run measures: rows of cells. Every cell is one comparison in turns, and is saved as soon as it is finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks import cluster, graphs
from benchmarks.arena import ROOT, THREAD_VARIABLES, NotMeasured, compete
from benchmarks.case import Case
from benchmarks.consensus import BASE, SIZES, TRAINED, name_of
from benchmarks.earlier import EARLIER, source
from benchmarks.peers import DECENT, FLOWER, JAX, NVFLARE, Peer, measure

Found = dict[str, Any]
OPACUS = ("opacus", "opacus-ghost")


@dataclass(frozen=True)
class Cell:
    """One comparison: its name in the results, the seconds that a full run of it takes, and how it is measured."""

    key: str
    cost: float
    measure: Callable[[], Found]


def turns(names: list[str], case: Case | None, seconds: float) -> Found:
    """Let contenders compete: Opacus only if it is installed, the earlier source only in a git checkout."""
    absent = [*(OPACUS if find_spec("opacus") is None else ()), *(each for each in names if is_missing(each))]
    present = [name for name in names if name not in absent]
    found = compete(present, case, seconds)
    described = {} if case is None else {"case": asdict(case)}
    return {**described, "measured": {name: asdict(each) for name, each in found.items()}}


def is_missing(name: str) -> bool:
    """Return whether a contender needs the earlier source and it is not available."""
    return name.startswith(EARLIER) and source() is None


def of_case(row: str, case: Case, names: list[str], cost: float, seconds: float) -> Cell:
    return Cell(f"{row}/{case.model} n={case.n} {case.clip}", cost, partial(turns, names, case, seconds))


def cnn(quick: bool) -> Iterator[Cell]:
    seconds = 2.0 if quick else 12.0
    for n in (10,) if quick else (10, 100):
        for clip, names in (("record", ["tacit", *OPACUS]), ("batch", ["tacit", "loop"])):
            cost = 35.0 if n == 100 and clip == "record" else 22.0
            yield of_case("cnn", Case("cnn", n, clip), names, cost, seconds)


def linear(quick: bool) -> Iterator[Cell]:
    costs = {(1000, "logistic"): 35.0, (1000, "mlp"): 70.0}
    for model in ("logistic", "mlp"):
        for n in (10, 100) if quick else (10, 100, 1000):
            names = ["tacit", "handwritten", *OPACUS]
            cost = costs.get((n, model), 25.0)
            yield of_case("linear", Case(model, n, "record"), names, cost, 2.0 if quick else 10.0)
        for n in (10,) if quick else (10, 100):
            names = ["tacit", "handwritten", "loop"]
            yield of_case("linear", Case(model, n, "batch"), names, 15.0, 2.0 if quick else 5.0)


def resnet(quick: bool) -> Iterator[Cell]:
    case = Case("resnet18", 1 if quick else 4, "record", batch=32)
    yield of_case("resnet", case, ["tacit", *OPACUS], 110.0, 1.0)


def small(quick: bool) -> Iterator[Cell]:
    yield Cell("small/fixed cost", 10.0, partial(turns, ["quadratics5", EARLIER + "quadratics5"], None, 4.0))
    for peer in (*DECENT.values(), FLOWER):
        yield of_peer("small", peer, 40.0 if peer is FLOWER else 25.0, quick)


def of_peer(row: str, peer: Peer, cost: float, quick: bool) -> Cell:
    rounds, seconds = (min(5, peer.rounds), 1.0) if quick else (peer.rounds, 4.0)
    return Cell(f"{row}/{peer.title}", cost, partial(measure, peer, rounds, seconds))


def convex(quick: bool) -> Iterator[Cell]:
    for method, others in (("dp-norm", ["products", "sgemm"]), ("dp-sgd", [])):
        names = [method, EARLIER + method, *others]
        yield Cell(f"convex/{method}", 25.0, partial(turns, names, None, 2.0 if quick else 12.0))
        yield Cell(f"convex/{method} cells", 50.0, partial(stacked_cells, method, quick))


def stacked_cells(name: str, quick: bool) -> Found:
    """Measure runs with the same task and draws, one by one and together, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.cells", name, "--json", *(["--quick"] if quick else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise NotMeasured("failed: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    found: Found = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def consensus(quick: bool) -> Iterator[Cell]:
    names = [name_of("laplace", BASE), "gaussian", "copy+laplace", "copy+own", "copy+gaussian"]
    yield Cell("consensus/10,000 × 1,000", 30.0, partial(turns, names, None, 2.0 if quick else 12.0))
    yield Cell("consensus/limits", 10.0, partial(turns, ["sgemm", "copy"], None, 2.0 if quick else 5.0))


def large(quick: bool) -> Iterator[Cell]:
    for kind, sizes in (("laplace", SIZES), ("training", TRAINED)):
        for size in sizes:
            name = name_of(kind, size)
            if not (quick and size[0] > BASE[0]):
                cost = 15.0 if kind == "laplace" else 35.0
                yield Cell(f"large/{name}", cost, partial(turns, [name], None, 1.0 if quick else 8.0))


def growth(quick: bool) -> Iterator[Cell]:
    """Vary nodes, parameters, batch and edges one at a time, with Tacit alone."""
    base = Case("logistic", 100, "record")
    series = {
        "nodes": [replace(base, n=n) for n in (10, 100, 1000, 10_000)],
        "parameters": [replace(base, model="mlp", hidden=hidden) for hidden in (16, 64, 256)],
        "batch": [replace(base, batch=batch) for batch in (16, 64, 256)],
        "edges": [replace(base, n=1000, degree=degree) for degree in (2, 4, 16, 64)],
    }
    for name, cases in series.items():
        for case in cases[:1] if quick else cases:
            size = {"nodes": case.n, "parameters": parameters(case), "batch": case.batch, "edges": edges(case)}[name]
            cost = 15.0 if case.n > 1000 else 7.0
            yield Cell(f"growth/{name} = {size:,}", cost, partial(turns, ["tacit"], case, 1.0 if quick else 3.0))


def parameters(case: Case) -> int:
    return 795 * case.hidden + 10 if case.model == "mlp" else 7850


def edges(case: Case) -> int:
    return case.n * case.degree // 2


def profile(quick: bool) -> Iterator[Cell]:
    """Profile rounds with one thread."""
    for model in ("logistic", "mlp", "cnn"):
        given = ["tacit", json.dumps(asdict(Case(model, 100 if model != "cnn" else 10, "record")))]
        yield Cell(f"profile/{model}, n = {100 if model != 'cnn' else 10}", 12.0, partial(profiled, given))
    for title, name in (
        ("DP-Norm", "dp-norm"),
        ("quadratics", "quadratics100"),
        ("10,000 × 1,000", name_of("laplace", BASE)),
    ):
        yield Cell(f"profile/{title}", 12.0, partial(profiled, [name]))


def profiled(given: list[str]) -> Found:
    command = [sys.executable, "-m", "benchmarks.profiled", *given]
    one = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=one)
    if done.returncode:
        raise NotMeasured("failed: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    found: Found = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def others(quick: bool) -> Iterator[Cell]:
    """Peers without an aim."""
    for peer in JAX.values():
        yield of_peer("others", peer, 35.0, quick)
    yield of_peer("others", NVFLARE, 50.0, quick)
    for d in graphs.SIZES[: 1 if quick else None]:
        yield Cell(f"others/pygsp2, {d} vertices", 45.0 if d > 500 else 10.0, partial(graphs.measured, d))


def networks(quick: bool) -> Iterator[Cell]:
    """Ranks of a cluster, and messages between sites; both need extras."""
    for name in cluster.GRAPHS if not quick else ["ring"]:
        given = (name, 1000, 1.0) if quick else (name, cluster.NODES, 12.0)
        yield Cell(f"networks/ranks, {name}", 20.0, partial(ranks, *given))
    yield Cell("networks/sites", 40.0, partial(sites, 3 if quick else 9))


def ranks(name: str, nodes: int, seconds: float) -> Found:
    return {"nodes": nodes, "ranks": list(cluster.measured(name, nodes, seconds))}


def sites(count: int) -> Found:
    """Measure the transports of sites and bare TLS in `count` turns."""
    from benchmarks.transport import compare
    from benchmarks.transport_contenders import CONTENDERS

    chosen = [contender for contender in CONTENDERS if contender.name.startswith(("bare TLS", "sites"))]
    return {"speeds": compare(chosen, 4.0, 50, count)}


ROWS: dict[str, Callable[[bool], Iterator[Cell]]] = {
    "cnn": cnn,
    "linear": linear,
    "resnet": resnet,
    "small": small,
    "convex": convex,
    "consensus": consensus,
    "large": large,
    "growth": growth,
    "profile": profile,
    "others": others,
    "networks": networks,
}
