"""A budget ends a run before the release that would exceed it; a target sets the noise."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy import guarantee, plan, rounded_up
from tests.runs.cases import assert_same, interrupt_after, rows, small


def test_budget_ends_the_run_at_the_last_release_that_fits(tmp_path):
    run = small(rounds=30, privacy={"delta": 1e-4, "budget": 1.2}, out=tmp_path / "run").go()
    planned = plan(run.algorithm.privacy, run.rounds, run.algorithm.privacy.sampling(run.task), run.task.nodes)
    costs = [guarantee(planned[:k], 1e-4).max(initial=0.0) for k in range(31)]
    fits = max(k for k, cost in enumerate(costs) if cost <= 1.2)
    assert 1 <= run.t == fits < 30
    assert run.privacy.guaranteed == pytest.approx(costs[fits])
    assert "The privacy budget ε = 1.2, δ = 0.0001" in run.stopped
    assert "node " in run.stopped
    assert rounded_up(costs[fits]) in run.stopped
    assert rounded_up(costs[fits + 1]) in run.stopped
    assert run.evaluations[-1]["round"] == run.result()["rounds"] == fits
    assert not run.interrupted


def test_resumed_run_ends_at_the_same_budget(tmp_path):
    changes = {"rounds": 30, "privacy": {"delta": 1e-4, "budget": 1.2}}
    whole = small(**changes, out=tmp_path / "run").go()
    again = small(**changes, out=tmp_path / "run", resume=True).go()
    assert (again.t, again.stopped) == (whole.t, whole.stopped)
    assert rows(again) == rows(whole)
    assert again.privacy == whole.privacy
    small(**changes, out=tmp_path / "broken", observers=[interrupt_after(2)]).go()
    resumed = small(**changes, out=tmp_path / "broken", resume=True).go()
    assert resumed.stopped == whole.stopped
    assert rows(resumed) == rows(whole)


def test_sufficient_budget_changes_nothing():
    assert_same(small(privacy={"delta": 1e-4, "budget": 100.0}).go(), small().go())


def test_a_target_is_also_a_budget():
    """Calibration is for the planned releases. Others are refused when the target is reached."""
    run = small(algorithm={"name": "const-d2p"}, privacy={"epsilon": 2.0, "delta": 1e-4}).go()
    ledger = run.task.ledger
    last = list(ledger.releases())[-1]
    with pytest.raises(BudgetExceeded, match=r"privacy budget ε = 2, δ = 0\.0001 ends before step 12"):
        ledger.record(replace(last, step=12))
    assert run.privacy.guaranteed <= 2.0


@pytest.mark.parametrize("sampling", ["poisson", "permutation"])
def test_nodes_of_all_sizes_meet_the_target(sampling):
    run = small(
        algorithm={"name": "dyn-d2p"},
        sharding={"name": "sizes", "ratio": 4.0},
        batch={"size": 16, "sampling": sampling},
        privacy={"epsilon": 2.0, "delta": 1e-4},
    ).go()
    sizes = run.task.sizes
    assert sizes[-1] > 3 * sizes[0]
    assert run.t == 12
    assert (run.privacy.per_node <= 2.0).all()
    assert (run.privacy.per_node >= 1.97).all()
    noise = next(run.task.ledger.releases()).multipliers
    assert noise[0] > noise[-1]  # the more records, the less noise


def test_same_noise_costs_small_nodes_more():
    run = small(sharding={"name": "sizes", "ratio": 4.0}).go()
    assert (np.diff(run.privacy.per_node) < 0).all()
    assert run.privacy.guaranteed == run.privacy.per_node.max()


def test_paper_calibration_meets_the_claim_but_not_the_guarantee():
    run = small(
        rounds=100,
        algorithm={"name": "const-d2p"},
        batch={"size": 1},
        privacy={"epsilon": 1.0, "delta": 1e-4, "calibration": "paper"},
    ).go()
    assert run.privacy.claimed == pytest.approx(1.0, rel=1e-6)
    assert run.privacy.guaranteed > 1.5
    assert run.t == 100  # no budget was set


@pytest.mark.parametrize("target", [{"epsilon": 1.0}, {"budget": 1.0}, {"epsilon": 1.0, "calibration": "paper"}])
def test_method_without_noise_cannot_meet_a_target(target):
    with pytest.raises(TacitError, match=r"^SGP "):
        small(algorithm={"name": "sgp"}, privacy=target)


def test_noise_must_be_set_exactly_once():
    with pytest.raises(TacitError, match="both set the noise"):
        small(privacy={"epsilon": 1.0})
    with pytest.raises(TacitError, match="no noise level"):
        small(algorithm={"name": "dyn-d2p"})


def test_planned_privacy_equals_spent_privacy():
    run = small(algorithm={"name": "dyn-d2p"}, privacy={"epsilon": 2.0, "delta": 1e-4})
    planned = run.planned()
    spent = run.go().privacy
    assert (planned.simulated, spent.simulated) == (False, True)  # a plan holds for secret noise, too
    assert planned == replace(spent, simulated=False, note=None)
    assert planned.per_node.tolist() == run.privacy.per_node.tolist()


def test_large_delta_warns():
    with pytest.warns(UserWarning, match=r"privacy.delta = 0.01 is not below 1/287"):
        run = small(privacy={"delta": 0.01})
    assert run.go().t == 12
