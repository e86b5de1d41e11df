"""Sensitivity modes of DPPS: the certified bound always holds, the estimated one does not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tacit.algorithms import (
    DPPS,
    CertifiedSensitivity,
    EstimatedSensitivity,
    PartPSP,
    RealSensitivity,
    ReplacementSensitivity,
)
from tacit.errors import TacitError
from tacit.graphs import Dropout, Graph, d_out, from_matrices, one_peer_exponential, ring
from tacit.networks import Simulated
from tacit.privacy import Ledger, Noise, ReleaseContext
from tacit.tasks import Dataset, Model, Target, Task, models
from tests.algorithms.dpps_cases import perturbation

REAL, IN_USE = 0, 1  # columns of DPPSState.sensitivities; the modes recorded for comparison follow


def consensus(dpps, graph, perturbations, start=None, bound=None, seed=0):
    """The states after each round. All start at the same vector."""
    n, d = perturbations[0].shape
    source, network = ReleaseContext(np.arange(n), Ledger(), Noise.from_seed(seed)), Simulated(graph)
    start = torch.zeros(d, dtype=perturbations[0].dtype) if start is None else start
    states = [dpps.start(start.repeat(n, 1))]
    for t, e in enumerate(perturbations):
        states.append(dpps.round(t, states[-1], perturbation(t, e, source, bound), network))
    return states[1:]


@st.composite
def doubly_stochastic(draw: st.DrawFn, largest: int = 8) -> Graph:
    """A periodic graph: one of the papers', or rounds that are averages of random permutations."""
    nodes = draw(st.integers(2, largest))
    kind = draw(st.sampled_from(["permutations", "permutations", "d-out", "exponential"]))
    if kind == "d-out":
        return d_out(nodes, draw(st.integers(2, nodes)))
    if kind == "exponential":
        return one_peer_exponential(nodes, draw(st.sampled_from(["floor", "ceil"])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    period, terms = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shares = [rng.dirichlet(np.ones(terms + 1)) * 0.9 for _ in range(period)]
    graph = from_matrices(
        [
            (0.1 + share[0]) * np.eye(nodes) + sum(p * np.eye(nodes)[rng.permutation(nodes)] for p in share[1:])
            for share in shares
        ]
    )
    assume(graph.window() is not None)
    return graph


@given(
    graph=doubly_stochastic(),
    rounds=st.integers(1, 14),
    d=st.integers(1, 4),
    sync_every=st.sampled_from([None, None, 1, 3, 5]),
    geometric=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    noise=st.sampled_from([None, 1e-3, 0.1, 1.0]),
    opposed=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_real_sensitivity_never_exceeds_the_certified_one(
    graph, rounds, d, sync_every, geometric, dtype, noise, opposed, seed
):
    if noise == 1e-3:
        dtype = torch.float64  # single precision is too coarse for so little noise
    rng = np.random.default_rng(seed)
    shape = (rounds, graph.nodes, 1 if opposed else d)
    es = rng.laplace(size=shape) * (0.1 + rng.exponential(size=(rounds, 1, 1)))
    if opposed:  # every node at the bound, with a random sign
        es = (0.1 + rng.exponential(size=(rounds, 1, 1))) * rng.choice([-1.0, 1.0], size=shape)
    es, start = torch.from_numpy(es).to(dtype), torch.from_numpy(rng.normal(size=shape[2])).to(dtype)
    stretch = min(rounds, sync_every or rounds)
    certified = CertifiedSensitivity.for_graph(graph, stretch)
    if geometric:
        certified = CertifiedSensitivity(torch.tensor([graph.certified_constants()], dtype=torch.float64), True)
    dpps = DPPS(noise, (ReplacementSensitivity(), certified), sync_every)
    seen = torch.stack([state.sensitivities[0] for state in consensus(dpps, graph, list(es), start, seed=seed % 97)])
    # The margin allows for rounding.
    margin = 1 + (1e-12 if dtype == torch.float64 else 1e-5)
    assert (seen[:, REAL] <= margin * seen[:, -1]).all()


@settings(max_examples=50)
@given(graph=doubly_stochastic(), length=st.integers(0, 6), start=st.integers(0, 3), dtype=st.sampled_from([32, 64]))
def test_certified_bound_is_tight(graph, length, start, dtype):
    # Round `start` perturbs by 1 so that two nodes end as far apart as possible; the last round adds another one.
    dense = np.eye(graph.nodes)
    for t in range(start, start + length):
        dense = graph.at(t).toarray() @ dense
    parted = np.abs(dense[:, None] - dense[None]).sum(2)
    i, j = np.unravel_index(parted.argmax(), parted.shape)
    es = np.zeros((start + length + 1, graph.nodes, 1))
    es[start, :, 0] = np.where(dense[i] >= dense[j], 1.0, -1.0)
    if length:
        es[-1, i, 0], es[-1, j, 0] = 1.0, -1.0
    es = torch.from_numpy(es).to(torch.float32 if dtype == 32 else torch.float64)
    certified = CertifiedSensitivity.for_graph(graph, len(es))
    last = consensus(DPPS(None, (certified,)), graph, list(es), bound=2.0)[-1].sensitivities[0]
    assert last[IN_USE] == pytest.approx(parted.max() + 2.0 if length else 2.0, rel=1e-5)
    assert last[REAL] == pytest.approx(float(last[IN_USE]), rel=1e-5) or i == j


def test_published_constants_are_violated_on_2_out():
    # Right after a synchronisation two opposite steps are 2‖e‖ apart, of which C′ = 0.78 covers 1.56.
    e = torch.zeros(10, 4, dtype=torch.float64)
    e[0], e[1] = 0.25, -0.25
    dpps = DPPS(1e-3, (EstimatedSensitivity(0.78, 0.55),), sync_every=2)
    seen = torch.stack([state.sensitivities[0] for state in consensus(dpps, d_out(10, 2), [e] * 5)])
    assert seen[0].tolist() == pytest.approx([2.0, 1.56])
    assert seen[2::2, IN_USE].tolist() == pytest.approx([1.56] * 2)
    assert (seen[::2, REAL] > seen[::2, IN_USE]).all()


@pytest.mark.parametrize("mode", [ReplacementSensitivity(), CertifiedSensitivity.for_graph(ring(3), 2)])
def test_the_largest_bound_of_the_nodes_counts(mode):
    source, zero = ReleaseContext(np.arange(3), Ledger(), Noise.from_seed(0)), torch.zeros(3, 2)
    e = replace(perturbation(0, zero, source, 1.0), sensitivity=np.array([1.0, 3.0, 2.0]))
    assert torch.as_tensor(mode.bound(mode.start(zero), zero, e, Simulated(ring(3)))).max() == 3.0


def test_synchronisation_resets_the_memory():
    es = list(torch.from_numpy(np.random.default_rng(0).normal(size=(7, 10, 5))))
    graph = d_out(10, 2)
    dpps = DPPS(
        0.1, (ReplacementSensitivity(), EstimatedSensitivity(), CertifiedSensitivity.for_graph(graph, 3)), sync_every=3
    )
    states = consensus(dpps, graph, es, bound=50.0)
    for t, state in enumerate(states):
        together = (t + 1) % 3 == 0
        assert bool((state.memory == 0).all()) == together
        assert bool((state.s == state.s[0]).all()) == together
        assert torch.allclose(state.a, torch.ones(10, dtype=torch.float64))
        if t % 3 == 0:  # the first round after a synchronisation: the memory is empty
            largest = float(es[t].abs().sum(1).max())
            assert state.sensitivities[0, 1:].tolist() == pytest.approx([50.0, 1.56 * largest, 50.0])
        else:
            assert state.sensitivities[0, 3] > 50.0


def test_certified_mode_needs_a_periodic_graph_and_equal_starting_points():
    with pytest.raises(TacitError, match=r"no sensitivity can be certified on .* not periodic"):
        CertifiedSensitivity.for_graph(Dropout(ring(5)), 4)
    # If it is only recorded for comparison, the run continues without it.
    graph = Dropout(ring(5))
    modes = PartPSP(share=("0.*",), noise_rate=1.0).with_rounds(9).protocol(0, np.arange(5), graph).modes
    assert [mode.name for mode in modes] == ["replacement", "estimated", "unknown"]
    with pytest.raises(TacitError, match="not periodic"):
        PartPSP(share=("0.*",), noise_rate=1.0, sensitivity="certified").with_rounds(9).protocol(0, np.arange(5), graph)
    apart = torch.eye(5, dtype=torch.float64)
    certified, told = (CertifiedSensitivity.for_graph(ring(5), 4, diameter) for diameter in (0.0, 2.0))
    for mode, mechanism in ((certified, "unproven"), (told, "laplace"), (RealSensitivity(), "unproven")):
        source, dpps = ReleaseContext(np.arange(5), Ledger(), Noise.from_seed(0)), DPPS(1.0, (mode,))
        dpps.round(0, dpps.start(apart), perturbation(0, torch.zeros_like(apart), source, 0.1), Simulated(ring(5)))
        assert [line.mechanism.name for line in source.ledger.releases()] == [mechanism]


def test_single_precision_rounding_does_not_void_the_guarantee():
    # Two nodes as far apart as the bound allows, on numbers that single precision rounds.
    e = torch.tensor([[0.1], [-0.1]])
    graph = from_matrices([np.full((2, 2), 0.5)])
    source, network = ReleaseContext(np.arange(2), Ledger(), Noise.from_seed(0)), Simulated(graph)
    dpps = DPPS(1.0, (CertifiedSensitivity.for_graph(graph, 50),))
    state = dpps.start(torch.full((2, 1), 300.3))
    for t in range(50):
        state = dpps.round(t, state, perturbation(t, e, source, 0.2), network)
    assert {line.mechanism.name for line in source.ledger.releases()} == {"laplace"}


def papers_task(nodes=10, records=40):
    """The paper's perceptron on images of random numbers, its first layer shared: d_s = 7840."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((nodes * records, 1, 28, 28))).float()
    y = torch.from_numpy(rng.integers(0, 10, len(x)))
    torch.manual_seed(0)
    options = {"inputs": (1, 28, 28), "classes": 10, "hidden": (10, 784), "biases": False}
    model = Model(models.build("mlp", options), share=["0.*"])
    parts = np.split(np.arange(len(x)), nodes)
    return Task(
        model,
        Dataset("random", x, y, x[:10], y[:10], Target.of_classes(10)),
        parts,
        batch=20,
        sampling="permutation",
        noise=Noise.from_seed(0),
    )


def test_estimated_sensitivity_grows_by_kappa_between_synchronisations():
    task, graph = papers_task(), d_out(10, 2)
    assert (task.model.shared, task.d) == (7840, 3 * 7840)
    published = {"lr": 0.1, "local_lr": 0.1, "noise_rate": 0.001, "b": 5.0, "sync_every": 5}
    algorithm = PartPSP(share=("0.*",), sensitivity="estimated", c_prime=0.78, lam=0.55, **published).with_rounds(15)
    network, state, S = Simulated(graph), algorithm.start(task, graph), []
    for t in range(15):
        state = algorithm.round(t, state, task, network)
        S.append(float(algorithm.traces(state)["estimated"][0]))
    kappa = 0.55 * (1 + 2 * 0.78 * 0.001 * 7840 / 5)
    assert kappa == pytest.approx(1.9, rel=0.01)
    # The first window starts with a large ‖s(0)‖₁; the steps e are negligible.
    growth = [S[t + 1] / S[t] for t in range(4)]
    assert growth == pytest.approx([kappa] * 4, rel=0.1)
    # Later windows start with ‖e‖₁ only. Each round adds a new e, so the growth approaches κ from above.
    assert min(S[t + 1] / S[t] for t in (5, 6, 7, 8, 10, 11, 12, 13)) > kappa
