"""Small instances that several tests use."""

import numpy as np
import torch

from tacit.graph_learning import GraphLearningRun, Signals, synthetic
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Noise


def instance(seed, d=None, n=None):
    """Random signals of random size and scale, and parameters to match."""
    rng = np.random.default_rng(seed)
    d, n = d or int(rng.integers(3, 12)), n or int(rng.integers(2, 5))
    scale = 10.0 ** rng.uniform(-1, 1)
    data = synthetic.erdos_renyi(d, n, 15, probability=0.5, q=0.6, seed=seed)
    signals = [scale * x for x in data.signals]
    unit = float(np.mean([x.var() for x in signals])) * 2
    parameters = {
        "beta": float(unit**2 * 10 ** rng.uniform(-2, 0)),
        "rho": float(unit * 10 ** rng.uniform(-1, 0.5)),
        "lam": float(unit * 10 ** rng.uniform(-2, -0.5)),
        "zeta": float(10 ** rng.uniform(-3, -1) / unit),
        "gamma_epsilon": 0.01 / unit,
    }
    return signals, parameters


def problem(seed, d, pull=1.0, zeta=1e-3, n=2, beta=0.05):
    """Problem (9) of n clients with a random consensus. Client i has pull i · `pull`."""
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(rng.exponential(size=(n, d * (d - 1) // 2)))
    con = torch.from_numpy(rng.exponential(size=z.shape[1]) * (rng.uniform(size=z.shape[1]) < 0.2) / d)
    pulls = pull * torch.arange(1, n + 1, dtype=torch.float64)
    return ClientProblem(z, 1.0, beta, zeta, pulls, con, floors(row_means(z), 1.0, 4 * beta + pulls, zeta, d))


def learn(method, signals, graph=None, tolerance=1e-6, seed=0, **options):
    """Run a simulation: noise, if there is any, is derived from the seed."""
    task = signals if isinstance(signals, Signals) else Signals(signals, noise=Noise.from_seed(seed), **options)
    network = Simulated(graph or complete(task.n))
    return GraphLearningRun(task, method, network, tolerance=tolerance, quiet=True).go()
