"""Learning one graph from signals: our solver and pygsp2's log-degree learner on the same problem."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import HERE, NotMeasured, Peer, environment
from tacit.graph_learning import Signals, default_parameters, matrices, synthetic
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.solver import solve

PYGSP = Peer("pygsp2, graph_log_degree", "pygsp", "pygsp2 requests", "")
SIZES, TIMES, MINUTES = (100, 200, 1000), 5, 10
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


def measured() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for d in SIZES:
        ours, times = problem(d), []
        for _ in range(TIMES):
            start = time.process_time()
            found = solve(ours)
            times.append(time.process_time() - start)
        best = float(ours.objective(found.w))
        rows.append({"d": d, "seconds": statistics.median(times), "objective": best, "theirs": []})
        for step, gamma in STEPS.items():
            rows[-1]["theirs"].append({"step": step, **_theirs(ours, gamma(d, 4 * ours.beta))})
            print(d, times, rows[-1]["theirs"][-1], flush=True)
    return rows


def _theirs(ours: ClientProblem, gamma: float) -> dict[str, Any]:
    """Run pygsp2, which minimises twice our objective: a = 2α, b = 4β."""
    try:
        python = environment(PYGSP)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "problem.npz"
            given = {"a": 2 * ours.alpha, "b": 4 * ours.beta, "gamma": gamma, "iterations": 1000}
            np.savez(file, square=matrices(ours.z[0].numpy()), **given)
            repetitions = 1 if ours.d > 500 else TIMES
            command = [str(python), str(HERE / "pygsp.py"), str(file), str(repetitions)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES)
            if done.returncode:
                raise NotMeasured("failed: " + (done.stderr.strip().splitlines() or ["?"])[-1])
            w = torch.from_numpy(np.load(file.with_suffix(".npy")))[None]
    except subprocess.TimeoutExpired:
        return {"reason": f"timeout after {MINUTES} minutes"}
    except NotMeasured as reason:
        return {"reason": str(reason)}
    seconds = statistics.median(json.loads(done.stdout.splitlines()[-1])["times"])
    reached = float(ours.objective(w.clamp(min=0))) if bool(torch.isfinite(w).all()) else None
    return {"seconds": seconds, "objective": reached}


def lines(rows: list[Mapping[str, Any]]) -> list[str]:
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
