"""Perturbations for DPPS, and a small task whose nodes have the same or opposite optima."""

import numpy as np
import torch

from tacit.algorithms import SGPDP
from tacit.graphs import d_out
from tacit.networks import Simulated
from tacit.privacy import Bounded, Noise, Sampling
from tacit.runs import Run
from tacit.tasks import Dataset, Model, Target, Task

DELTA = 1e-5
ALIKE, OPPOSED = [1.0] * 10, [1.0, -1.0] * 5


def perturbation(t, value, source, bound=None):
    """e with twice a public bound on the norms of its rows; by default the largest of these norms."""
    n = len(value)
    bound = 2 * float(value.abs().sum(1, dtype=torch.float64).max()) if bound is None else bound
    sampling = Sampling("none", np.ones(n), "replace-one")
    return Bounded(value, np.full(n, bound), "l1", sampling, t, "gradient", source)


def pulled(places, d=2, nodes=10):
    """A task whose node i has one record, at `places[i]` in each of d coordinates, which is the node's optimum."""
    x = torch.tensor(places, dtype=torch.float32)[:, None].repeat(1, d)
    y = torch.arange(nodes) % 2
    model = Model.from_loss(lambda w, x, y: ((w - x) ** 2).sum() / 2, torch.zeros(d, dtype=torch.float64))
    parts = [np.array([i]) for i in range(nodes)]
    return Task(
        model, Dataset("pulled", x, y, x, y, Target.of_classes(2)), parts, noise=Noise.from_seed(0), dtype=torch.float64
    )


def run(places, rounds=12, method=SGPDP, **params):
    params = {"clip": 1.0, "noise_rate": 0.01, "b": 0.05, "sync_every": 4} | params
    task, graph = pulled(places), d_out(10, 2)
    return Run(task, method(**params).with_rounds(rounds), Simulated(graph), delta=DELTA).go()
