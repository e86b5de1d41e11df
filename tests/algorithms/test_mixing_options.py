"""Several mixings, momentum, closing mixings, averages and weights against naive numpy; and where the graph is."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.algorithms import DPSGD, SGPDP, MixingOptions, Porter, Prisma, Stepper, const_d2p, inner_state, sgp
from tacit.errors import TacitError
from tacit.graphs import Dropout, from_matrices, graphs
from tacit.networks import Simulated
from tacit.privacy import Noise
from tacit.tasks import Task
from tests.algorithms import mixing_oracle as oracle
from tests.contracts.test_algorithms import DIRECTED
from tests.helpers import constant_task, noised, quadratic_task, run_steps

K, LR, CLIP, MULTIPLIER = 13, 0.3, 0.8, 0.5
SIZES = [3, 9, 5, 7]
OPTIONS = {
    "none": {},
    "mixings": {"mixings": 3},
    "momentum": {"momentum": 0.7},
    "closing": {"closing_rounds": 4},
    "ema": {"averaging": "ema", "averaging_decay": 0.8},
    "polyak": {"averaging": "polyak", "averaging_start": 0.6},
    "weights": {"weights": "records"},
    "all, ema": {"mixings": 2, "momentum": 0.5, "closing_rounds": 3, "averaging": "ema", "weights": "records"},
    "all, polyak": {"mixings": 2, "momentum": 0.5, "closing_rounds": 3, "averaging": "polyak", "weights": "records"},
}


def task_of(options):
    task = quadratic_task(nodes=1, records=sum(SIZES), seed=4)
    parts = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    weighting = options.get("weights", "equal")
    return Task(task.model, task.data, parts, noise=Noise.from_seed(2), dtype=torch.float64, weighting=weighting)


def expected(task, graph, options, purpose="gradient"):
    weights = [4 * size / sum(SIZES) if "weights" in options else 1.0 for size in SIZES]
    mean = oracle.clipped_quadratic(task.data.x.double().numpy(), task.shards, CLIP, weights)

    def gradient(k, i, z):
        return noised(task, "gaussian", mean(i, z), MULTIPLIER * weights[i] * CLIP / SIZES[i], purpose, i, k)

    averaging = options.get("averaging")
    return oracle.push_sum(
        task.initial().numpy(),
        lambda time: graph.at(time).toarray(),
        gradient,
        K=K,
        lr=LR,
        mixings=options.get("mixings", 1),
        beta=options.get("momentum", 0.0),
        closing=options.get("closing_rounds", 0),
        decay=options.get("averaging_decay", 0.9) if averaging == "ema" else None,
        start=int(options.get("averaging_start", 0.5) * K) if averaging == "polyak" else None,
    )


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("graph", [DIRECTED, graphs.build("one-peer-exponential", {"nodes": 4})], ids=lambda g: g.name)
def test_push_sum_matches_a_naive_implementation(graph, options):
    task = task_of(options)
    algorithm = const_d2p(lr=LR, clip=CLIP, noise_multiplier=MULTIPLIER).with_rounds(K)
    algorithm = replace(algorithm, mixing=MixingOptions(**options))
    models, _ = run_steps(algorithm, task, Simulated(graph), K)
    assert models.numpy() == pytest.approx(expected(task, graph, options), abs=2e-7 if "weights" in options else 1e-12)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_dp_sgd_matches_a_naive_implementation(options):
    """On a doubly stochastic graph, push-sum weights stay 1."""
    task, graph = task_of(options), graphs.build("ring", {"nodes": 4})
    algorithm = DPSGD(lr=LR, clip=CLIP, local_steps=1, mixing=MixingOptions(**options)).with_rounds(K)
    models, _ = run_steps(algorithm.with_noise(np.full(4, MULTIPLIER)), task, Simulated(graph), K)
    assert models.numpy() == pytest.approx(expected(task, graph, options), abs=2e-7 if "weights" in options else 1e-12)


def test_momentum_of_several_local_steps_adds_up_the_displacements_of_rounds():
    task, graph = task_of({}), graphs.build("complete", {"nodes": 4})
    exact = {"lr": 0.1, "clip": None, "sigma": 0.0, "local_steps": 3}
    one_round = DPSGD(**exact).with_rounds(1)
    algorithm = DPSGD(**exact, mixing=MixingOptions(momentum=0.6)).with_rounds(5)
    found, _ = run_steps(algorithm, task, Simulated(graph), 5)
    task = task_of({})
    x, v = task.initial(), torch.zeros_like(task.initial())
    for k in range(5):
        state = replace(one_round.start(task, graph), x=x)
        moved = one_round.round(k, state, task, Simulated(from_matrices([np.eye(4)]))).x - x
        u = 0.6 * v + moved
        x, v = (x + 0.4 * u).mean(0).expand(4, -1), u.mean(0).expand(4, -1)
    assert found.numpy() == pytest.approx(x.numpy(), abs=1e-12)


class TimedNetwork(Simulated):
    """Keeps the times of the graph at which nodes mix."""

    def __init__(self, graph):
        super().__init__(graph)
        self.times = []

    def mix(self, t, *values, row_bytes=None):
        self.times.append(t)
        return super().mix(t, *values, row_bytes=row_bytes)


def test_every_mixing_advances_the_graph():
    graph = graphs.build("one-peer-exponential", {"nodes": 16})
    network, task = TimedNetwork(graph), quadratic_task(16)
    algorithm = replace(sgp().with_rounds(3), mixing=MixingOptions(mixings=4, closing_rounds=2))
    run_steps(algorithm, task, network, 3)
    assert network.times == list(range(14))
    offsets = {tuple(graph.at(t).toarray()[0].nonzero()[0].tolist()) for t in network.times[:4]}
    assert len(offsets) == graph.period == 4


def test_one_mixing_of_each_offset_averages_exactly():
    algorithm = replace(sgp(lr=0.1).with_rounds(2), mixing=MixingOptions(mixings=3))
    models, _ = run_steps(
        algorithm, quadratic_task(8), Simulated(graphs.build("one-peer-exponential", {"nodes": 8})), 2
    )
    assert (models - models.mean(0)).abs().max() < 1e-12


def test_closing_mixings_turn_models_into_the_mass_weighted_mean():
    task = task_of({})
    algorithm = const_d2p(lr=LR, clip=CLIP, noise_multiplier=MULTIPLIER).with_rounds(K)
    _, before = run_steps(algorithm, task, Simulated(DIRECTED), K)
    closed = replace(algorithm, mixing=MixingOptions(closing_rounds=60))
    models, after = run_steps(closed, task_of({}), Simulated(DIRECTED), K)
    mean = before.x.sum(0) / before.w.sum()
    assert before.z.sub(mean).abs().max() > 0.05
    assert models.numpy() == pytest.approx(mean.expand(4, -1).numpy(), abs=1e-9)
    assert torch.allclose(after.x.sum(0), before.x.sum(0))
    assert float(after.w.sum()) == pytest.approx(4)


@pytest.mark.parametrize("links", [0.0, 0.3])
def test_mass_and_velocity_are_conserved_without_gradients(links):
    graph = Dropout(DIRECTED, links=links, nodes=0.1, seed=3)
    task = constant_task(nodes=4)
    algorithm = replace(sgp().with_rounds(9), mixing=MixingOptions(mixings=2, momentum=0.5, closing_rounds=5))
    stepper = Stepper(algorithm)
    state = stepper.start(task, graph)
    spread = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)))
    state = replace(state, inner=replace(state.inner, x=spread), velocity=spread.flip(0))
    network = Simulated(graph)
    for t in range(9):
        before = state
        state = stepper.step(t, state, task, network, last=t == 8)
        assert torch.allclose(state.velocity.sum(0), 0.5 * before.velocity.sum(0))
        moved = before.inner.x.sum(0) + 0.5 * 0.5 * before.velocity.sum(0)
        assert torch.allclose(state.inner.x.sum(0), moved)
        assert float(state.inner.w.sum()) == pytest.approx(4)


def test_traffic_counts_velocities_and_every_mixing():
    graph = graphs.build("ring", {"nodes": 6})

    def bytes_of(**options):
        network, task = Simulated(graph), quadratic_task()  # 3 parameters in double precision
        run_steps(replace(sgp().with_rounds(5), mixing=MixingOptions(**options)), task, network, 5)
        return network.traffic.bytes, network.traffic.rounds

    one = 6 * 2 * 8  # nodes, neighbours, bytes per number
    assert bytes_of() == (5 * one * 4, 5)
    assert bytes_of(momentum=0.5) == (5 * one * 7, 5)
    assert bytes_of(mixings=3) == (15 * one * 4, 15)
    assert bytes_of(closing_rounds=2, momentum=0.5) == (5 * one * 7 + 2 * one * 4, 7)
    assert bytes_of(averaging="ema") == (5 * one * 4, 5)


def test_averages_do_not_change_the_run():
    task, graph = task_of({}), graphs.build("ring", {"nodes": 4})
    algorithm = const_d2p(lr=LR, noise_multiplier=MULTIPLIER).with_rounds(K)
    _, plain = run_steps(algorithm, task, Simulated(graph), K)
    averaged = replace(algorithm, mixing=MixingOptions(averaging="polyak"))
    models, state = run_steps(averaged, task_of({}), Simulated(graph), K)
    assert inner_state(state).x.equal(plain.x)
    assert not models.equal(plain.z)


@pytest.mark.parametrize(
    ("algorithm", "option", "reason"),
    [
        (Porter(compressor="top-k"), "mixings", "no longer compressed"),
        (Prisma(), "closing_rounds", "a server gives every node the mean"),
        (Prisma(average="gossip"), "momentum", "it has a momentum of its own"),
    ],
)
def test_options_that_depend_on_other_parameters_are_refused(algorithm, option, reason):
    chosen = MixingOptions(**{option: 2 if option != "momentum" else 0.5})
    with pytest.raises(TacitError, match=f"does not accept algorithm.{option}: .*{reason}"):
        Stepper(replace(algorithm, mixing=chosen))


@pytest.mark.parametrize(
    "wrong",
    [
        {"closing_rounds": -1},
        {"mixings": 0},
        {"momentum": 1.0},
        {"weights": "size"},
        {"averaging": "mean"},
        {"averaging_decay": 1.0},
        {"averaging_start": 1.0},
    ],
)
def test_values_out_of_range_are_refused(wrong):
    (key,) = wrong
    with pytest.raises(TacitError, match=f"{key} must be"):
        MixingOptions(**wrong)


def test_the_certified_sensitivity_is_that_of_all_mixings_of_a_round():
    """With three offsets per round, nodes agree exactly, so nothing of earlier rounds remains in the bound."""
    graph = graphs.build("one-peer-exponential", {"nodes": 8})
    bounds = {}
    for mixings in (1, 3):
        algorithm = SGPDP(clip=0.1, noise_rate=0.01, sync_every=0, sensitivity="certified").with_rounds(6)
        algorithm = replace(algorithm, mixing=MixingOptions(mixings=mixings))
        _, state = run_steps(algorithm, quadratic_task(8), Simulated(graph), 6)
        real, bound = state.sensitivities[0, :2].tolist()
        assert real <= bound
        bounds[mixings] = bound
    assert bounds[3] == pytest.approx(2 * 0.1 * 0.1)
    assert bounds[1] > 2 * bounds[3]
