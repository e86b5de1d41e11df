"""pygsp2's log-degree graph learner on a problem from a file; runs in its own environment and prints the times."""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pygsp2.graph_learning import graph_log_degree

problem, times = Path(sys.argv[1]), []
with np.load(problem) as file:
    square, a, b, gamma, limit = (file[key][()] for key in ("square", "a", "b", "gamma", "iterations"))
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    with np.errstate(all="ignore"):
        found = graph_log_degree(square, a, b, gamma=gamma, maxiter=limit, verbose=False)
    times.append(time.process_time() - start)
np.save(problem.with_suffix(".npy"), found[np.triu_indices(len(found), 1)])
print(json.dumps({"times": times, "version": version("pygsp2")}))
