"""Learning one graph from signals: our solver and pygsp2's log-degree learner on the same problem."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.arena import NotMeasured
from benchmarks.peers import Peer, environment, run_script
from tacit.graph_learning import Signals, default_parameters, matrices, synthetic
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.solver import solve

PYGSP = Peer("pygsp2, graph_log_degree", "pygsp", "pygsp2 requests")
SIZES, TIMES = (100, 200, 1000), 5
STEPS: dict[str, Callable[[int, float], float]] = {
    "default step": lambda d, b: 0.04,
    "convergent step": lambda d, b: 0.9 / (2 * b + math.sqrt(2 * (d - 1))),
}


def problem(d: int) -> ClientProblem:
    """Return a problem on a random graph with z scaled to maximum 1 and ζ = 0, as pygsp2 requires."""
    z = Signals(synthetic.rbf(d, 1, 200, min_weight=0.95, seed=0).signals).mean(0).use_locally()
    z = z / z.max()
    beta, nothing = default_parameters(z).beta, z.new_zeros(1)
    floor = floors(row_means(z), 1.0, nothing + 4 * beta, 0.0, d)
    return ClientProblem(z, 1.0, beta, 0.0, nothing, torch.zeros_like(z[0]), floor)


def measured(d: int) -> dict[str, Any]:
    """Solve a problem of d vertices, and let pygsp2 solve it with both steps."""
    torch.set_num_threads(1)  # times are CPU times
    ours, times = problem(d), []
    for _ in range(TIMES):
        start = time.process_time()
        found = solve(ours)
        times.append(time.process_time() - start)
    best = float(ours.objective(found.w))
    theirs = [{"step": step, **_theirs(ours, gamma(d, 4 * ours.beta))} for step, gamma in STEPS.items()]
    version = next((each["version"] for each in theirs if "version" in each), None)
    return {"d": d, "seconds": statistics.median(times), "objective": best, "theirs": theirs, "version": version}


def _theirs(ours: ClientProblem, gamma: float) -> dict[str, Any]:
    """Run pygsp2, which minimises twice our objective: a = 2α, b = 4β."""
    try:
        python = environment(PYGSP)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "problem.npz"
            given = {"a": 2 * ours.alpha, "b": 4 * ours.beta, "gamma": gamma, "iterations": 1000}
            np.savez(file, square=matrices(ours.z[0].numpy()), **given)
            done = run_script(python, PYGSP.script, [str(file), str(1 if ours.d > 500 else TIMES)], threads=1)
            w = torch.from_numpy(np.load(file.with_suffix(".npy")))[None]
    except NotMeasured as reason:
        return {"reason": str(reason)}
    reached = float(ours.objective(w.clamp(min=0))) if bool(torch.isfinite(w).all()) else None
    return {"seconds": statistics.median(done["times"]), "objective": reached, "version": done["version"]}


def lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    if not rows:
        return []
    head = ["vertices", "Tacit, exact: s", *(f"pygsp2, {each['step']}: s" for each in rows[0]["theirs"])]
    head += ["Tacit ÷ pygsp2 (convergent step)", "relative excess of pygsp2's objective"]
    body = []
    for row in rows:
        theirs = row["theirs"]
        second = theirs[-1].get("seconds")
        ratio = f"**{second / row['seconds']:.1f}×**" if second else ""
        gaps = [_gap(each, row["objective"]) for each in theirs]
        seconds = [each.get("reason") or f"{each['seconds']:.3g}" for each in theirs]
        body.append([str(row["d"]), f"{row['seconds']:.3g}", *seconds, ratio, "; ".join(gaps)])
    return ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *body]] + [""]


def _gap(each: Mapping[str, Any], best: float) -> str:
    """Format the relative excess of the objective over the minimum."""
    if "reason" in each:
        return "–"
    if each["objective"] is None:
        return "NaN"
    return f"{(each['objective'] - best) / abs(best):.1e}" if math.isfinite(each["objective"]) else "∞"
