"""What a sweep costs, against dp_accounting and the records ledger."""

import json

import pytest

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy import RecordsLedger, RecordsTotal, epsilon_per_run, joint_epsilon
from tacit.runs import Config, from_config
from tacit.sweeps import cell_runs, charging, sweep
from tests.sweeps.cases import SECRET, SMALL

LRS = {"lr": [0.05, 0.2, 0.5]}


def independent_total(config, runs, epsilon=None):
    """ε of several runs of the same plan by dp_accounting, from the ledger of one of them."""
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    changed = config if epsilon is None else {**config, "privacy": {**config["privacy"], "epsilon": epsilon}}
    ledger = from_config(Config.parse(changed)).go().task.ledger
    totals = []
    for event in {repr(event): event for event in ledger.to_dp_events()}.values():
        accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
        accountant.compose(event, runs)
        totals.append(accountant.get_epsilon(config["privacy"]["delta"]))
    return max(totals)


def test_uncharged_runs_are_stated_beside_the_chosen_one():
    found = sweep(SMALL, LRS)
    privacy = found.privacy
    assert not privacy.charged
    assert privacy.guaranteed == privacy.chosen == found.rows[0].guaranteed <= 3.0
    expected = independent_total(SMALL, 3)
    assert 0.99 * expected <= privacy.total <= 1.02 * expected
    assert "is that of the chosen run alone. The 3 runs of the sweep were not charged: together they cost ε = " in (
        privacy.sentence()
    )
    assert "protect nobody" in privacy.sentence()


@pytest.mark.parametrize(
    ("charge", "words"),
    [
        (False, "The only run of the sweep was not charged: it costs ε = "),
        (True, " covers the only run of the sweep and the choice. The chosen run alone: ε = "),
    ],
)
def test_the_statement_of_a_single_run(charge, words):
    assert words in sweep(SMALL, {"lr": [0.1]}, charge=charge).privacy.sentence()


def test_charged_runs_have_the_target_together():
    found = sweep(SMALL, LRS, seeds=2, charge=True)
    privacy = found.privacy
    assert privacy.charged
    assert privacy.runs == 6
    assert 0.97 * 3.0 < privacy.guaranteed == privacy.total <= 3.0
    each = found.best.privacy.epsilon
    assert 0.97 * each < privacy.chosen <= each < 2.0
    assert 0.96 * 3.0 < independent_total(SMALL, 6, each) <= 1.01 * 3.0
    assert "covers all 6 runs of the sweep and the choice" in privacy.sentence()


def test_charged_runs_with_different_plans_have_the_target_together():
    found = sweep(SMALL, {"batch.size": [8, 64], "rounds": [2, 6]}, charge=True)
    assert 0.95 * 3.0 < found.privacy.total <= 3.0
    assert len({row.guaranteed for row in found.rows}) > 1
    assert found.table["epsilon"].std() < 0.02


def test_charged_runs_without_a_target_keep_their_noise():
    config = {**SMALL, "algorithm": {"name": "dyn-d2p", "noise_multiplier": 2.0}, "privacy": {"delta": 1e-3}}
    charged, free = (sweep(config, {"lr": [0.1, 0.5]}, charge=charge) for charge in (True, False))
    assert charged.table.equals(free.table)
    assert charged.privacy.guaranteed == free.privacy.total > free.privacy.guaranteed


@pytest.mark.parametrize(
    ("grid", "settings", "message"),
    [
        ({"privacy.epsilon": [1.0, 2.0]}, [], "remove privacy.epsilon from the grid"),
        ({"lr": [0.1]}, ["privacy.calibration=paper"], 'got privacy.calibration = "paper"'),
    ],
)
def test_a_target_that_cannot_be_split_is_refused(grid, settings, message):
    with pytest.raises(TacitError, match=message):
        sweep(SMALL, grid, settings=settings, charge=True)


def test_runs_that_guarantee_nothing_or_different_things_have_no_total():
    found = sweep(SMALL, {"batch.relation": ["add-remove", "replace-one"], "batch.size": ["all"]})
    assert found.privacy.total is None
    assert "protect different things" in found.privacy.sentence()


def test_models_with_exact_values_are_not_covered():
    partial = {"name": "dyn-d2p", "share": ["*weight"], "local": "exact"}
    found = sweep({**SMALL, "algorithm": partial}, {"lr": [0.1, 0.5]}, charge=True)
    assert found.privacy.covers_models is False
    assert "no ε covers them, nor the choice" in found.privacy.sentence()


def test_secret_noise_is_always_charged_and_composed_in_the_records_ledger(tmp_path):
    privacy = {**SECRET["privacy"], "population": "ward-7", "population_budget": 3.0}
    found = sweep({**SECRET, "privacy": privacy}, {"lr": [0.1, 0.5]}, out=tmp_path / "out")
    assert found.privacy.charged
    assert not found.privacy.simulated
    _, runs, budget = RecordsLedger().find("ward-7")
    assert len(runs) == found.privacy.recorded_runs == 2
    assert budget.epsilon == 3.0
    total = joint_epsilon([run.releases for run in runs], 1e-3)
    assert found.privacy.recorded_total == pytest.approx(total)
    assert 0.9 * 3.0 < found.privacy.total <= 3.0
    assert found.privacy.total == pytest.approx(total)
    assert "All 2 runs on these records: ε = " in found.privacy.sentence()
    again = sweep({**SECRET, "privacy": privacy}, {"lr": [0.1, 0.5]}, out=tmp_path / "out")
    assert again.table.equals(found.table)
    assert len(RecordsLedger().find("ward-7")[1]) == 2
    with pytest.raises(BudgetExceeded, match=r"lr 0\.1, seed 0: These records have a budget of ε = 3"):
        sweep({**SECRET, "privacy": privacy}, {"lr": [0.1, 0.5]}, out=tmp_path / "other")


def test_a_secret_run_that_was_interrupted_counts_in_the_stated_total(tmp_path, monkeypatch):
    real, calls = cell_runs.utility_on, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) > 2:  # in the second run, after all its rounds
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(cell_runs, "utility_on", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(SECRET, {"lr": [0.1, 0.5]}, out=tmp_path)
    monkeypatch.setattr(cell_runs, "utility_on", real)
    privacy = sweep(SECRET, {"lr": [0.1, 0.5]}, out=tmp_path).privacy
    assert (privacy.runs, privacy.recorded_runs) == (2, 3)
    assert privacy.guaranteed == privacy.recorded_total > 3.0 >= privacy.total


def test_a_secret_sweep_above_the_budget_of_the_records_is_refused_before_its_first_run():
    noisy = {"name": "dyn-d2p", "noise_multiplier": 1.0}
    privacy = {"delta": 1e-3, "population": "ward-8", "population_budget": 1.0}
    with pytest.raises(TacitError, match=r"plans 3 runs, and together they would reach ε = .* No run was started"):
        sweep({**SECRET, "algorithm": noisy, "privacy": privacy}, LRS)
    with pytest.raises(TacitError, match="has no runs yet"):
        RecordsLedger().find("ward-8")


def test_a_records_ledger_that_lacks_runs_gives_no_total(tmp_path, monkeypatch):
    sweep(SECRET, {"lr": [0.1, 0.5]}, out=tmp_path / "out")
    ledger = RecordsLedger()
    saved = [json.loads(path.read_text()) for path in (tmp_path / "out/cells").iterdir()]
    assert {ledger.total(each["recorded_as"], 1e-3).runs for each in saved} == {2}
    monkeypatch.setattr(RecordsLedger, "total", lambda *_: RecordsTotal(0.5, 1))
    found = sweep(SECRET, {"lr": [0.1, 0.5]}, out=tmp_path / "out")
    assert found.privacy.recorded_total is None
    assert "missing in the records ledger" in found.privacy.sentence()


def test_the_epsilon_of_each_run_meets_the_total():
    each = epsilon_per_run(lambda epsilon: 5 * epsilon, 2.0, 5)
    assert 0.99 * 2.0 <= 5 * each <= 2.0
    with pytest.raises(TacitError, match="runs must be at least 1"):
        epsilon_per_run(lambda epsilon: epsilon, 2.0, 0)
    with pytest.raises(TacitError, match="No amount of noise"):
        epsilon_per_run(lambda epsilon: 7.0, 2.0, 3)


def test_runs_in_several_populations_have_no_total(monkeypatch):
    """Two preparations of one table are two populations: neither total contains all runs of the sweep."""

    class Ledger:
        path = "ledger"

        def total(self, run, delta):
            return RecordsTotal({"one": 1.5, "other": 1.9}[run], 2)

    monkeypatch.setattr(charging, "RecordsLedger", Ledger)
    assert charging._recorded_total([{"recorded_as": "one"}] * 2, 1e-5).epsilon == 1.5
    several = charging._recorded_total([{"recorded_as": "one"}, {"recorded_as": "other"}], 1e-5)
    assert several.epsilon is None
    assert "are missing in the records ledger" in several.reason
