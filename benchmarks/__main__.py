"""`python -m benchmarks`: measure, print the tables, and write them with the raw numbers to disk."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.arena import compete
from benchmarks.case import Case
from benchmarks.graphs import measured
from benchmarks.peers import DECENT, FLOWER, NotMeasured, measure
from benchmarks.table import page

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def contenders(case: Case, quick: bool) -> list[str]:
    """Return the contenders of a case.

    Opacus cannot clip a batch, there is no hand-written CNN, and contenders that take minutes per round are omitted.
    """
    names = ["tacit"]
    if case.model != "cnn":
        names.append("handwritten")
    heavy = case.n * (8 if case.model == "cnn" else 1)
    if case.clip == "record" and heavy <= (100 if quick else 1000):
        names += ["opacus", "opacus-ghost"]
    if heavy * (20 if case.clip == "record" else 1) <= (400 if quick else 2000):
        names.append("loop")
    return names


def cases(quick: bool) -> Iterator[Case]:
    for model in ("logistic", "mlp", "cnn"):
        for n in (10, 100) if quick else (10, 100, 1000):
            for clip in ("record", "batch"):
                yield Case(model, n, clip)


def growth(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield measurements of Tacit alone, varying n, d and the batch size one at a time."""
    base = Case("logistic", 100, "record")
    more = [replace(base, n=n) for n in (10, 1000, 10_000)]
    wider = [replace(base, model="mlp", hidden=hidden) for hidden in (16, 64, 256)]
    longer = [replace(base, batch=batch) for batch in (16, 256)]
    for case in [base, more[0], wider[0], longer[0]] if quick else [base, *more, *wider, *longer]:
        d = {"logistic": 7850, "mlp": 795 * case.hidden + 10}[case.model]
        found = compete(["tacit"], case, seconds)["tacit"]
        yield {"what": f"n = {case.n}, d = {d:,}, batch = {case.batch}", **asdict(found)}


def machine(threads: int) -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    clock = "times are CPU times" if threads == 1 else f"load before the run {os.getloadavg()[0]:.1f}"
    used = f"{os.cpu_count()} cores, of which each contender used {threads}; {clock}"
    return f"{name}, {used}; Python {platform.python_version()}"


def run(quick: bool, threads: int, seconds: float, peers: bool) -> dict[str, Any]:
    results: dict[str, Any] = {"quick": quick, "machine": machine(threads), "cases": [], "peers": []}
    for case in cases(quick):
        found = {name: asdict(m) for name, m in compete(contenders(case, quick), case, seconds).items()}
        results["cases"].append({**asdict(case), "measured": found})
        print(case, {name: f"{1e3 * m['seconds']:.2f} ms" for name, m in found.items()}, flush=True)
    limits = compete(["sgemm", "copy", "consensus", "copy+noise"], None, seconds)
    results["limits"] = {name: asdict(m) for name, m in limits.items()}
    for peer in (FLOWER, *DECENT) if peers else ():
        print(peer.title, flush=True)
        try:
            ours, theirs = measure(peer, 5 if quick else 20, seconds)
            results["peers"].append({"title": peer.title, "ours": asdict(ours), "theirs": asdict(theirs)})
        except NotMeasured as reason:
            results["peers"].append({"title": peer.title, "reason": str(reason)})
    results["growth"] = list(growth(seconds / 3, quick))
    results["published"] = published(seconds)
    results["graphs"] = measured() if peers else []
    return results


def published(seconds: float) -> dict[str, Any]:
    return {name: asdict(m) for name, m in compete(["dp-norm", "products", "sgemm"], None, seconds).items()}


def write(results: dict[str, Any], name: str) -> None:
    """Write the numbers beside this file and, after a full run, the tables between the two marks of the page."""
    (HERE / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    text = f"Machine: {results['machine']}.\n\n{page(results)}"
    print(text)
    if not results["quick"] and PAGE.exists():
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer nodes and repetitions; does not change the page")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per contender (default: all)")
    parser.add_argument("--seconds", type=float, help="minimum seconds per case (default: 15; quick: 3)")
    parser.add_argument("--published", action="store_true", help="measure only DP-Norm; keep the other results")
    parser.add_argument("--graphs", action="store_true", help="measure only the graph learners; keep the other results")
    parser.add_argument("--no-peers", action="store_true", help="skip Flower, decent-bench and pygsp2")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    seconds = options.seconds or (3.0 if options.quick else 15.0)
    name = "quick" if options.quick else "results"
    if options.published or options.graphs:
        results = json.loads((HERE / f"{name}.json").read_text())
        results |= {"published": published(seconds)} if options.published else {}
        results |= {"graphs": measured()} if options.graphs else {}
    else:
        results = run(options.quick, options.threads, seconds, not options.no_peers)
    write(results, name)


if __name__ == "__main__":
    main()
