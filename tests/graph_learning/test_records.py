"""Graph learning with secret noise is added up over all runs on the same signals."""

import json
from pathlib import Path

import pytest

from tacit.errors import BudgetExceeded
from tacit.graph_learning import PPGL, GraphLearner, GraphLearningRun, Signals, grid_search, synthetic
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import RecordsLedger, joint_epsilon

SIGNALS = synthetic.rbf(clients=3, signals=60, seed=0).signals
ROUNDS = {"release": "rounds", "rounds": 4, "K": 1, "beta": 0.1, "rho": 1.0, "lam": 0.1}


def learn(**options):
    return GraphLearner(**{"epsilon": 1.0, "clip": 20.0, **options}).fit(SIGNALS)


def releases(learner):
    return list(learner.run_.task.ledger.releases())


@pytest.mark.parametrize("options", [{}, ROUNDS], ids=["once", "rounds"])
def test_two_runs_have_one_total(options):
    first, second = learn(**options), learn(**options, epsilon=2.0)
    assert (first.privacy_.runs, first.privacy_.total) == (1, first.privacy_.guaranteed)
    assert second.privacy_.runs == 2
    assert second.privacy_.total == joint_epsilon([releases(first), releases(second)], 1e-5)
    assert second.privacy_.guaranteed < second.privacy_.total < 3.0


def test_simulations_and_graphs_without_noise_are_not_added_up():
    learn(seed=0)
    learn(epsilon=None)
    assert not RecordsLedger().path.exists()


def test_a_budget_refuses_a_run_before_anything_is_released():
    learn(population="ward-7", population_budget=1.2)
    with pytest.raises(BudgetExceeded, match=r"1 run spent 1, this run plans 1, and together they would reach 1\.4"):
        learn(population="ward-7", population_budget=1.2)
    assert len(RecordsLedger().find("ward-7")[1]) == 1


def test_the_command_states_the_total(tacit):
    command = ["learn-graph", "--epsilon", "1", "--population", "ward-7", "--population-budget", "1.6"]
    assert "No other run on these records is recorded." in tacit(*command).out
    second = tacit(*command)
    assert "This run: ε = 1. All 2 runs on these records: ε = 1.4" in second.out
    privacy = json.loads(Path("graphs/example-2/result.json").read_text())["privacy"]
    assert privacy["runs"] == 2
    assert "for all 2 runs together, at the same δ" in Path("graphs/example-2/report.html").read_text()
    third = tacit(*command)
    assert third.code == 2
    assert "The run is refused" in third.err
    assert not Path("graphs/example-3").exists()


def by_hand(method, task=None, **options):
    task = task or Signals(SIGNALS, clip=20.0)
    return GraphLearningRun(task, method, Simulated(complete(3)), quiet=True, **options).go()


def test_runs_built_by_hand_are_added_up():
    method = PPGL(beta=0.1, rho=1.0, lam=0.1, rounds=3).with_privacy(1.0, 1e-5)
    assert [by_hand(method).privacy.runs for _ in range(2)] == [1, 2]


def test_a_release_before_the_run_is_added_up():
    method = PPGL(beta=0.1, rho=1.0, lam=0.1, rounds=3).with_privacy(1.0, 1e-5)
    task = Signals(SIGNALS, clip=20.0)
    first = by_hand(method, task, z=method.prepare_z(task)).privacy
    assert (first.runs, first.total) == (1, first.guaranteed)


def test_a_grid_search_costs_one_run():
    method = PPGL(beta=0.1, rho=1.0, lam=0.1, rounds=3).with_privacy(1.0, 1e-5)
    task = Signals(SIGNALS, clip=20.0)
    found = grid_search(task, method, lambda graphs, consensus: float(graphs.sum()), rho=[0.5, 1.0])
    assert by_hand(method).privacy.runs == 2
    assert by_hand(found.best, task, z=found.z).privacy.runs == 2
