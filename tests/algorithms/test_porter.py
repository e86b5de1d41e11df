"""PORTER and PriSMA against per-node re-implementations, and PORTER against plain gradient tracking."""

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import Ledger
from tacit.tasks import Clip
from tests.helpers import digits_task, noised, quadratic_task, run_rounds

NOT_PRIVATE = {"sigma": 0.0, "clip": None}


def ring(nodes=6):
    return graphs.build("ring", {"nodes": nodes})


def test_porter_without_noise_and_compression_is_gradient_tracking():
    task, graph = quadratic_task(), ring()
    algorithm = algorithms.build("porter", {"lr": 0.1, **NOT_PRIVATE}).with_rounds(50)
    state = algorithm.start(task, graph)
    w, targets = graph.at(0).toarray(), task.data.x.double().numpy().reshape(6, -1, 3).mean(1)
    x, v, old = task.initial().numpy(), np.zeros((6, 3)), np.zeros((6, 3))
    for t in range(50):
        state = algorithm.round(t, state, task, Simulated(graph))
        g = x - targets
        v = w @ v + g - old
        x, old = w @ x - 0.1 * v, g
        assert np.allclose(state.x.numpy(), x, atol=1e-12)
        assert np.allclose(state.v.mean(0), g.mean(0), atol=1e-12)  # v tracks the mean gradient


@pytest.mark.parametrize(
    ("compressor", "compression"),
    [("top-k", {"share": 0.1}), ("random-k", {"share": 0.3}), ("quantise", {"bits": 4})],
)
def test_error_feedback_reaches_the_optimum_with_compression(compressor, compression):
    task = quadratic_task(d=20)
    params = {"lr": 0.05, "gamma": 0.2, "compressor": compressor, "compression": compression, **NOT_PRIVATE}
    algorithm = algorithms.build("porter", params).with_rounds(1000)
    state = run_rounds(algorithm, task, Simulated(ring()), 1000)
    assert torch.allclose(algorithm.models(state), task.data.x.double().mean(0).expand(6, -1), atol=1e-5)


def test_porter_matches_a_loop_over_nodes():
    task, graph = quadratic_task(d=10), ring()
    params = {"lr": 0.1, "gamma": 0.4, "sigma": 0.2, "clip": 0.7, "compressor": "top-k", "compression": {"share": 0.2}}
    algorithm = algorithms.build("porter", params).with_rounds(15)
    state, network = algorithm.start(task, graph), Simulated(graph)
    w, records = graph.at(0).toarray(), task.data.x.double().numpy().reshape(6, -1, 10)

    def top2(row):
        kept = np.argsort(-abs(row))[:2]
        return np.where(np.isin(np.arange(10), kept), row, 0)

    x, v, h, q, old = (np.zeros((6, 10)) for _ in range(5))
    for t in range(15):
        state = algorithm.round(t, state, task, network)
        p = np.empty((6, 10))
        for i in range(6):
            each = x[i] - records[i]
            each = each * 0.7 / (0.7 + np.linalg.norm(each, axis=1, keepdims=True))
            p[i] = noised(task, "gaussian", each.mean(0), 0.2, "gradient", i, t)
        v = np.stack([v[i] + 0.4 * (sum(w[i, j] * q[j] for j in range(6)) - q[i]) + p[i] - old[i] for i in range(6)])
        q, old = q + np.stack([top2(row) for row in v - q]), p
        x = np.stack([x[i] + 0.4 * (sum(w[i, j] * h[j] for j in range(6)) - h[i]) - 0.1 * v[i] for i in range(6)])
        h = h + np.stack([top2(row) for row in x - h])
        assert np.allclose(state.x.numpy(), x, atol=1e-9)
    # Two messages per round to each of two neighbours, with 2 entries and their indices.
    assert network.traffic.bytes == 15 * 2 * 6 * 2 * 2 * (8 + 4)
    assert network.traffic.rounds == 30


@pytest.mark.parametrize("average", ["server", "gossip"])
def test_prisma_matches_a_loop_over_nodes(average):
    task, graph = quadratic_task(), ring()
    params = {"lr": 0.1, "eta": 0.2, "clip": 0.9, "clip_difference": 0.05, "sigma": 0.03, "sigma_first": 0.1}
    algorithm = algorithms.build("prisma", {**params, "average": average}).with_rounds(12)
    state, network = algorithm.start(task, graph), Simulated(graph)
    w, records = graph.at(0).toarray(), task.data.x.double().numpy().reshape(6, -1, 3)

    def clipped(rows, bound):
        return rows * np.minimum(1, bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))

    x, before, v = np.zeros((6, 3)), np.zeros((6, 3)), np.zeros((6, 3))
    for t in range(12):
        state = algorithm.round(t, state, task, network)
        for i in range(6):
            g = clipped(x[i] - records[i], 0.9).mean(0)
            if t == 0:
                v[i] = noised(task, "gaussian", g, 0.1, "gradient", i, t)
            else:
                d = clipped((x[i] - records[i]) - (before[i] - records[i]), 0.05).mean(0)
                v[i] = 0.8 * v[i] + noised(task, "gaussian", 0.8 * d + 0.2 * g, 0.03, "gradient", i, t)
        before, x = x, (x - 0.1 * v.mean(0) if average == "server" else w @ (x - 0.1 * v))
        assert np.allclose(state.x.numpy(), x, atol=1e-9)


def test_prisma_ledger_holds_noise_divided_by_sensitivity():
    task = digits_task(batch=8)
    params = {"eta": 0.2, "clip": 1.0, "clip_difference": 0.5, "sigma": 0.06, "sigma_first": 0.25}
    algorithm = algorithms.build("prisma", params).with_rounds(3).bind(task, ring(5))
    run_rounds(algorithm, task, Simulated(ring(5)), 3)
    first, second, _ = task.ledger.releases()
    assert first.multipliers == pytest.approx([0.25 * 8 / 1.0] * 5)
    assert second.multipliers == pytest.approx([0.06 * 8 / (0.2 * 1.0 + 0.8 * 0.5)] * 5)


def test_one_record_moves_a_prisma_release_by_at_most_its_sensitivity():
    """The same batch without one record: the value moves by at most η C₁/B + (1 − η) C₂/B."""
    task = digits_task(batch=8, dtype=torch.float64)
    x = torch.randn(5, task.d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    algorithm = algorithms.build("prisma", {"eta": 0.3, "clip": 0.8, "clip_difference": 0.2, "sigma": 0.0})
    whole = combined(algorithm, task, x)
    drawn = task.sampler.draw(1)
    for place in range(int(drawn.weight[0].sum())):
        less = task.host(range(5), Ledger())
        less.sampler.draw = lambda step, place=place: drawn._replace(
            weight=drawn.weight.clone().index_put((torch.tensor(0), torch.tensor(place)), torch.tensor(0.0))
        )
        moved = (combined(algorithm, less, x) - whole).norm(dim=1)
        assert moved[0] <= (0.3 * 0.8 + 0.7 * 0.2) / 8 + 1e-12
        assert moved[0] > 0
        assert moved[1:].max() == 0


def combined(algorithm, task, x):
    gradient = task.gradient(x, 1, algorithm.gradient_clip, f"g{task.draws}")
    difference = task.gradient(x, 1, Clip(algorithm.clip_difference, "l2"), f"d{task.draws}", before=x + 0.01)
    return algorithm._combine(gradient, difference).value


def test_bad_input():
    with pytest.raises(TacitError, match="sigma_first"):
        algorithms.build("prisma", {"sigma": 1.0})
    with pytest.raises(TacitError, match='unknown compressor "topk"; did you mean "top-k"'):
        run_rounds(
            algorithms.build("porter", {"compressor": "topk", **NOT_PRIVATE}), quadratic_task(), Simulated(ring()), 1
        )
