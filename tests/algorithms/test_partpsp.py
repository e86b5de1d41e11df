"""PartPSP, SGPDP and PEDFL against naive implementations of their papers' algorithms, with the same noise."""

from functools import cache

import numpy as np
import pytest
import torch

from tacit.algorithms import PEDFL, SGPDP, PartPSP
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import Ledger
from tests.algorithms import partpsp_oracle as oracle
from tests.helpers import digits_task, noised

NODES, BATCH, ROUNDS, HIDDEN = 5, 4, 50, 6
RATES = {"lr": 0.1, "clip": 5.0, "decay": 0.5, "decay_rounds": (20, 35)}
NOISE = {"noise_rate": 1e-3, "b": 5.0, "c_prime": 0.6, "lam": 0.7}
MODES = ["real", "estimated", "certified", "replacement"]
FIRST, LAST = ("0.*",), ("2.*",)


@cache
def perceptron(share):
    """Without biases: "0.weight" (HIDDEN, 64) and "2.weight" (10, HIDDEN)."""
    options = {"hidden": (HIDDEN,), "biases": False}
    return digits_task(NODES, batch=BATCH, model="mlp", options=options, dtype=torch.float64, share=share)


def two_layers(share=None):
    """The task, with a new ledger."""
    return perceptron(share).host(range(NODES), Ledger())


class OracleInput:
    """The package's data and noise, in the form that the oracle takes."""

    def __init__(self, task, graph):
        self.task, self.graph = task, graph
        self.first = task.model.layout.names[0]  # of the two matrices
        self.records = cache(self._records)

    def _records(self, t, i):
        index, weight = self.task.sampler.draw(t)
        chosen = self.task.shards[i][index[i][weight[i] > 0].numpy()]
        return [(self.task.data.x[r].double().numpy().ravel(), int(self.task.data.y[r])) for r in chosen]

    def gradient(self, t, i, *vectors):
        """Of the vectors' parts: (∇_s, ∇_l), or (∇,) where all is shared."""
        flat = np.concatenate(vectors)
        size = HIDDEN * 64 if self.first == "0.weight" else 10 * HIDDEN
        one, other = flat[:size], flat[size:]
        w1, w2 = (one, other) if self.first == "0.weight" else (other, one)
        g1, g2 = oracle.two_layer_gradient(w1.reshape(HIDDEN, 64), w2.reshape(10, HIDDEN), self.records(t, i), BATCH)
        both = (g1.ravel(), g2.ravel()) if self.first == "0.weight" else (g2.ravel(), g1.ravel())
        return both if len(vectors) == 2 else (np.concatenate(both),)

    def protocol(self, algorithm, s0):
        return oracle.DPPS(
            s0,
            lambda t: self.graph.at(t).toarray(),
            lambda t, i, v, scale: noised(self.task, "laplace", v, scale, "gradient", i, t),
            oracle.rate_of(NOISE["noise_rate"], RATES["decay"], RATES["decay_rounds"]),
            b=NOISE["b"],
            mode=algorithm.sensitivity,
            c=NOISE["c_prime"],
            lam=NOISE["lam"],
            sync_every=algorithm.sync_every,
        )


def run(algorithm, task, graph):
    """The nodes' models, and the real sensitivity and the one in use, round by round."""
    algorithm, network, seen = algorithm.with_rounds(ROUNDS), Simulated(graph), []
    state = algorithm.start(task, graph)
    for t in range(ROUNDS):
        state = algorithm.round(t, state, task, network)
        traces = algorithm.traces(state)
        seen.append([float(traces["real"][0]), float(traces[algorithm.sensitivity][0])])
    found = state.x if isinstance(algorithm, PEDFL) else algorithm.models(state)
    return found.numpy(), np.array(seen)


def agrees(found, seen, expected, protocol):
    assert np.abs(found - np.array(expected)).max() < 1e-6
    assert np.abs(found).max() < 100  # a diverged run would make the comparison meaningless
    assert np.allclose(seen, np.array(protocol.sensitivities), rtol=1e-6)


def graph_for(sync_every):
    name, own = ("d-out", {"d": 2}) if sync_every else ("one-peer-exponential", {})
    return graphs.build(name, {"nodes": NODES, **own})


@pytest.mark.parametrize(
    ("share", "mode", "sync_every"),
    [
        *((FIRST, mode, every) for mode in MODES for every in (None, 4)),
        *((None, mode, every) for mode, every in zip(MODES, (None, 4, None, 4), strict=True)),
        (LAST, "certified", 4),
    ],
    ids=str,
)
def test_partpsp_matches_a_naive_implementation(share, mode, sync_every):
    task, graph = two_layers(share), graph_for(sync_every)
    params = RATES | NOISE | {"local_lr": 0.3, "sensitivity": mode, "sync_every": sync_every}
    algorithm = SGPDP(**params) if share is None else PartPSP(share=share, **params)
    found, seen = run(algorithm, task, graph)

    s0, l0 = ([part.numpy() for part in parts] for parts in task.split(task.initial()))
    fed = OracleInput(task, graph)
    protocol = fed.protocol(algorithm, s0)

    def gradient(t, i, s, local):
        return fed.gradient(t, i, s, local) if share else (*fed.gradient(t, i, s), local)

    lr, local_lr = (oracle.rate_of(start, RATES["decay"], RATES["decay_rounds"]) for start in (0.1, 0.3))
    y, local = oracle.partpsp(s0, l0, gradient, protocol, T=ROUNDS, lr=lr, local_lr=local_lr, clip=RATES["clip"])
    agrees(found, seen, [np.concatenate(pair) for pair in zip(y, local, strict=True)], protocol)


@pytest.mark.parametrize(("mode", "sync_every"), [*zip(MODES, (4, None, 4, None), strict=True), ("certified", None)])
def test_pedfl_matches_a_naive_implementation(mode, sync_every):
    task, graph = two_layers(), graph_for(sync_every)
    algorithm = PEDFL(**RATES, **NOISE, sensitivity=mode, sync_every=sync_every)
    found, seen = run(algorithm, task, graph)
    fed = OracleInput(task, graph)
    x0 = list(task.initial().numpy())
    protocol = fed.protocol(algorithm, x0)
    lr = oracle.rate_of(RATES["lr"], RATES["decay"], RATES["decay_rounds"])
    expected = oracle.pedfl(x0, fed.gradient, protocol, T=ROUNDS, lr=lr, clip=RATES["clip"])
    agrees(found, seen, expected, protocol)


def test_some_gradients_are_clipped_and_some_are_not():
    # Otherwise the tests above would not cover clipping, or would not cover its absence.
    task = two_layers()
    fed = OracleInput(task, graph_for(None))
    sizes = [oracle.norm(fed.gradient(t, i, task.initial()[i].numpy())[0]) for t in range(20) for i in range(NODES)]
    assert min(sizes) < RATES["clip"] < max(sizes)
