"""The messages of DPPS, and the ledger entries for them."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats

from tacit.algorithms import (
    DPPS,
    PEDFL,
    SGPDP,
    CertifiedSensitivity,
    EstimatedSensitivity,
    PartPSP,
    ReplacementSensitivity,
)
from tacit.errors import TacitError
from tacit.graphs import d_out, ring
from tacit.networks import Simulated, run_on_threads
from tacit.privacy import Ledger, Noise, ReleaseContext, Sampling
from tests.algorithms.dpps_cases import ALIKE, OPPOSED, perturbation, pulled, run
from tests.helpers import run_rounds


class Wire(Simulated):
    """A network that records all vectors sent over it."""

    def __init__(self, graph):
        super().__init__(graph)
        self.vectors = []

    def mix(self, t, *values):
        self.vectors.append(values[0].clone())
        return super().mix(t, *values)

    def mean(self, x):
        self.vectors.append(x.clone())
        return super().mean(x)


@pytest.mark.parametrize("multiplier", [0.5, np.linspace(0.1, 1.0, 5)], ids=["same at all nodes", "one per node"])
def test_messages_have_the_noise_that_the_ledger_records(multiplier):
    rng, d = np.random.default_rng(0), 20_000
    e = torch.from_numpy(1e-4 * rng.normal(size=(5, d)))
    network, source = Wire(ring(5)), ReleaseContext(np.arange(5), Ledger(), Noise.from_seed(3))
    dpps = DPPS(multiplier, (ReplacementSensitivity(),), sync_every=2)
    state = dpps.start(torch.from_numpy(rng.normal(size=(1, d))).repeat(5, 1))
    for t in range(2):  # one round that mixes, one that synchronises
        before, bound = state.s, 7.0 + t
        state = dpps.round(t, state, perturbation(t, e, source, bound), network)
        line = list(source.ledger.releases())[t]
        assert (line.step, line.purpose, line.mechanism.name) == (t, "gradient", "laplace")
        assert line.multipliers.tolist() == np.broadcast_to(multiplier, 5).tolist()
        noise = (network.vectors[t] - before - e).numpy()
        scale = line.multipliers * bound
        expected = before + e
        Noise.from_seed(3).laplace_(expected, scale, "noise/gradient", np.arange(5), t)
        assert torch.allclose(network.vectors[t], expected, atol=1e-9)
        for row in range(5):
            # |n| has mean and deviation equal to the scale: five deviations of the mean over d coordinates.
            assert np.abs(noise[row]).mean() == pytest.approx(scale[row], rel=5 / math.sqrt(d))
            assert stats.kstest(noise[row], stats.laplace(scale=scale[row]).cdf).pvalue > 1e-4
    assert torch.allclose(state.s, network.vectors[1].mean(0).expand(5, -1))


@pytest.mark.parametrize(
    ("mode", "broadcasts"), [("replacement", 0), ("certified", 9), ("real", 0), ("estimated", 12)], ids=str
)
def test_bytes_include_the_norms_that_a_mode_broadcasts(mode, broadcasts):
    # In rounds without synchronisation, certified broadcasts each node's displacement; estimated always sends S_i.
    task, network = pulled(OPPOSED), Simulated(d_out(10, 2))
    run_rounds(SGPDP(noise_rate=0.01, sensitivity=mode, sync_every=4).with_rounds(12), task, network, 12)
    # Numbers of 8 bytes: s and a to one neighbour; s to 9 nodes; one number to 9 nodes.
    mixed, averaged, numbers = 9 * 3, 3 * 9 * 2, broadcasts * 9
    assert network.traffic.bytes == 10 * 8 * (mixed + averaged + numbers)


def test_estimated_sensitivity_is_unproven_without_a_view_of_all_nodes():
    class Blind(Simulated):
        omniscient = False

        def diameter(self, x):
            raise AssertionError("a real network cannot measure all nodes")

    for mode, mechanism in {"estimated": "unproven", "certified": "laplace", "replacement": "laplace"}.items():
        task, graph = pulled(ALIKE), d_out(10, 2)
        algorithm = SGPDP(noise_rate=0.1, sensitivity=mode).with_rounds(3)
        state, network = algorithm.start(task, graph), Blind(graph)
        for t in range(3):
            state = algorithm.round(t, state, task, network)
            assert np.isnan(float(algorithm.traces(state)["real"][0]))
        assert {line.mechanism.name for line in task.ledger.releases()} == {mechanism}


@pytest.mark.parametrize("mode", ["certified", "estimated", "real", "replacement"])
def test_one_node_per_thread_computes_the_same_sensitivity(mode):
    graph, task = d_out(10, 2), pulled(np.linspace(-1, 2, 10).tolist())
    algorithm = PEDFL(noise_rate=0.2, sensitivity=mode, sync_every=3).with_rounds(8)

    def rounds(network, mine):
        state, seen = algorithm.start(mine, graph), []
        for t in range(8):
            state = algorithm.round(t, state, mine, network)
            seen.append(state.sensitivities[0].tolist())
        return seen

    whole = rounds(Simulated(graph), task)
    for seen in run_on_threads(graph, lambda network: rounds(network, task.host(network.nodes, Ledger()))):
        assert np.allclose(seen, whole, rtol=1e-9)


def test_growing_noise_is_refused_before_it_overflows():
    with pytest.raises(TacitError, match=r"sensitivity exceeds 1e\+15.*: set a smaller sync_every.*replacement"):
        run(OPPOSED, 60, sensitivity="certified", noise_rate=100.0, b=1.0, sync_every=None)
    assert run(OPPOSED, 60, noise_rate=100.0, b=1.0, sync_every=None).stopped is None


def test_refusals():
    with pytest.raises(TacitError, match=r"PartPSP: sync_every must be 0 \(never\) or more, got -1"):
        PartPSP(share=("0.*",), sync_every=-1)
    with pytest.raises(TacitError, match="SGPDP: clip must be positive and finite, got 0"):
        SGPDP(clip=0.0)
    with pytest.raises(TacitError, match="local_lr must be positive"):
        PartPSP(share=("0.*",), local_lr=-1.0)
    with pytest.raises(TacitError, match="lam must be below 1"):
        SGPDP(lam=1.0)
    with pytest.raises(TacitError, match="noise_rate must be 0 or more and finite, got -1"):
        SGPDP(noise_rate=-1.0)
    with pytest.raises(TacitError, match='sensitivity = "certified" needs a clipping bound'):
        SGPDP(clip=None, noise_rate=1.0, sensitivity="certified")
    with pytest.raises(
        TacitError, match=r"no noise level: set privacy.epsilon .* or algorithm.noise_rate and algorithm.b"
    ):
        SGPDP().privacy.releases(0, np.arange(2), Sampling("none", np.ones(2), "replace-one"))
    with pytest.raises(TypeError, match="share"):
        PartPSP()
    e = perturbation(0, torch.ones(3, 2), ReleaseContext(np.arange(3), Ledger(), Noise.from_seed(0)), math.inf)
    for mode in (ReplacementSensitivity(), CertifiedSensitivity.for_graph(ring(3), 2)):
        dpps = DPPS(1.0, (mode, EstimatedSensitivity()))
        with pytest.raises(TacitError, match="must be finite, got inf: set a smaller clip"):
            dpps.round(0, dpps.start(torch.zeros(3, 2)), e, Simulated(ring(3)))


def test_a_perturbation_beyond_its_bound_is_scaled_down():
    """A refusal would reveal that it exceeds the bound; without scaling, the noise would be too small."""
    source, e = ReleaseContext(np.arange(3), Ledger(), Noise.from_seed(0)), torch.ones(3, 4)
    network, dpps = Wire(ring(3)), DPPS(1.0, (ReplacementSensitivity(),))
    in_l2 = dataclasses.replace(perturbation(0, e, source), norm="l2")
    with pytest.raises(TacitError, match="bounded in L1"):
        dpps.round(0, dpps.start(torch.zeros(3, 4)), in_l2, network)
    assert len(source.ledger) == 0
    assert network.vectors == []
    silent = DPPS(1e-3, (ReplacementSensitivity(),))
    state = silent.round(0, silent.start(torch.zeros(3, 4)), perturbation(0, e, source, bound=4.0), Simulated(ring(3)))
    assert state.s.abs().sum(1).tolist() == pytest.approx([2.0] * 3, abs=0.1)  # half of the bound, not 4
