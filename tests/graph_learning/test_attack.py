"""An attack on the released values: its success is at most what is accounted, and close to it."""

import math

import numpy as np
import pytest
import torch

from tacit.graph_learning import PPGL, Signals
from tacit.graphs import ring
from tacit.networks import Simulated
from tacit.privacy import Noise

CLIENTS, ROUNDS, MULTIPLIER, D = 4000, 4, 1.5, 6


def neighbours():
    """Half of the clients have a peak at vertex 0, the other half at vertex 1: almost the worst case."""
    first, second = np.zeros((2, D)), np.zeros((2, D))
    first[0, 0] = second[0, 1] = 1e3
    first[1, 2] = second[1, 2] = 1e-3
    return [first] * (CLIENTS // 2) + [second] * (CLIENTS // 2)


def effect(samples, task):
    """The distance between the halves in standard deviations, along the line between the two z̄, which are public."""
    z = task.with_new_ledger().mean(0).use_locally()
    shares = (samples @ ((z[0] - z[-1]) / (z[0] - z[-1]).norm())).view(2, -1)
    return float((shares[0].mean() - shares[1].mean()).abs() / (shares - shares.mean(1, keepdim=True)).std())


def test_attack_on_release_once():
    task = Signals(neighbours(), clip=3.0, noise=Noise.from_seed(1))
    z = PPGL(noise=MULTIPLIER).privacy.mechanism(task.nodes).release(task.mean(0))
    worst = 1 / MULTIPLIER
    assert 0.85 * worst < effect(z, task) < 1.05 * worst


@pytest.mark.parametrize("K", [1, 3])
def test_attack_on_release_rounds(K):
    """Subtract from every released graph what the round would compute with z̄ = 0, and add up.

    For K = 1 this gives T noisy z̄, whose mean has √T times less noise. For K = 3 the proven bound is less tight.
    """
    task = Signals(neighbours(), clip=3.0, noise=Noise.from_seed(2))
    method = PPGL(K=K, release="rounds", rounds=ROUNDS, noise=MULTIPLIER, initial=40.0, step=0.02, gamma=0.1, beta=1.0)
    network = Simulated(ring(CLIENTS))
    state = method.start(task, network.graph)
    seen = torch.zeros_like(state.z)
    for t in range(ROUNDS):
        public = method._problem(torch.zeros_like(state.z), state.gamma, state.con, task)
        without, _ = method.gradient_steps(public, state.w, state.before)
        state = method.round(t, state, task, network)
        assert (state.w > 0).all()  # the projection changes nothing
        seen += without - state.w
    worst = math.sqrt(ROUNDS) / MULTIPLIER
    assert effect(seen, task) < 1.05 * worst
    assert effect(seen, task) > (0.85 if K == 1 else 0.6) * worst
