import dp_accounting as dp
import numpy as np
import pytest

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy.accountant import epsilon
from tacit.privacy.bounded import Sampling
from tacit.privacy.budget import Budget
from tacit.privacy.ledger import Ledger, Release
from tacit.privacy.planning import classes, guarantee
from tacit.privacy.statement import rounded_up

NONE = Sampling("none", np.ones(2), "add-remove")
POISSON = Sampling("poisson", np.array([0.1, 0.05]), "add-remove")


def spend(ledger, sampling, multipliers, most=10_000, purposes=("gradient",)):
    """Release until refused; how many releases went through, and the refusal."""
    for step in range(most):
        for purpose in purposes:
            try:
                ledger.record(step, purpose, "gaussian", np.array(multipliers), sampling)
            except BudgetExceeded as refusal:
                return step, str(refusal)
    return most, ""


@pytest.mark.parametrize(("sampling", "rate", "noise"), [(NONE, 1.0, 20.0), (POISSON, 0.1, 1.5)])
def test_the_step_that_would_overspend_is_the_one_refused(sampling, rate, noise):
    limit = 2.0
    made, refusal = spend(Ledger(budget=Budget(limit, 1e-5)), sampling, [noise, 2 * noise])

    def cost(steps):
        one = dp.GaussianDpEvent(noise)
        one = one if rate == 1 else dp.PoissonSampledDpEvent(rate, one)
        return epsilon(dp.SelfComposedDpEvent(one, steps), 1e-5)

    assert made > 3
    assert cost(made) <= limit < cost(made + 1)
    assert f"ends before step {made}: node 0 has spent" in refusal
    assert rounded_up(cost(made + 1)) in refusal


def test_two_releases_of_one_draw_are_charged_together():
    made, _ = spend(Ledger(budget=Budget(2.0, 1e-5)), POISSON, [1.5, 1.5], purposes=("a", "b"))
    joint = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.5 / np.sqrt(2)))
    assert (
        epsilon(dp.SelfComposedDpEvent(joint, made), 1e-5)
        <= 2.0
        < epsilon(dp.SelfComposedDpEvent(joint, made + 1), 1e-5)
    )


def test_a_plan_that_fits_is_looked_at_once(monkeypatch):
    plan = [
        Release(t, "gradient", "gaussian", np.array([9.0, 9.0]), "none", np.ones(2), "add-remove") for t in range(20)
    ]
    budget = Budget(5.0, 1e-5)
    budget.accept(plan)
    monkeypatch.setattr("tacit.privacy.budget.guarantee", lambda *a: pytest.fail("looked again"))
    made, _ = spend(Ledger(budget=budget), NONE, [9.0, 9.5], most=20)
    assert made == 20


def test_leaving_the_plan_is_noticed():
    plan = [Release(t, "gradient", "gaussian", np.array([9.0]), "none", np.ones(1), "add-remove") for t in range(20)]
    budget = Budget(5.0, 1e-5)
    budget.accept(plan)
    ledger = Ledger(budget=budget)
    one = Sampling("none", np.ones(1), "add-remove")
    ledger.record(0, "gradient", "gaussian", np.array([9.0]), one)
    with pytest.raises(BudgetExceeded):
        ledger.record(1, "gradient", "gaussian", np.array([0.1]), one)
    with pytest.raises(BudgetExceeded):
        ledger.record(1, "gradient", "exact", np.array([0.0]), one)
    assert len(ledger) == 1


def test_growing_losses_are_followed_exactly():
    budget = Budget(3.0, 1e-5)
    ledger = Ledger(budget=budget)
    multipliers = [20 * 0.97**t for t in range(500)]
    made = 0
    try:
        for t, noise in enumerate(multipliers):
            ledger.record(t, "gradient", "gaussian", np.array([noise, noise]), NONE)
            made += 1
    except BudgetExceeded:
        pass
    cost = [epsilon(dp.GaussianDpEvent(sum(m**-2 for m in multipliers[:k]) ** -0.5), 1e-5) for k in (made, made + 1)]
    assert cost[0] <= 3.0 < cost[1]


def test_impossible_budgets_are_refused():
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(TacitError, match="ε > 0"):
            Budget(bad, 1e-5)
    with pytest.raises(TacitError, match="δ"):
        Budget(1.0, 1.5)


def test_classes_dominate_each_of_their_nodes():
    rng = np.random.default_rng(0)
    rates, noise = rng.uniform(0.01, 0.2, 300), rng.uniform(1.0, 3.0, 300)
    lines = [Release(t, "gradient", "gaussian", noise, "poisson", rates, "add-remove") for t in range(20)]
    groups = classes(lines)
    assert sorted(np.concatenate(groups).tolist()) == list(range(300))
    assert len(groups) <= 256
    spent = guarantee(lines, 1e-5)
    for node in rng.choice(300, 8, replace=False):
        one = dp.PoissonSampledDpEvent(rates[node], dp.GaussianDpEvent(noise[node]))
        assert spent[node] >= epsilon(dp.SelfComposedDpEvent(one, 20), 1e-5) * (1 - 1e-6)


def test_a_permutation_is_followed_step_by_step():
    # Ten batches an epoch, and one release an epoch: each is a participation of its own.
    sampling = Sampling("permutation", np.array([0.1]), "replace-one")
    ledger = Ledger(budget=Budget(3.0, 1e-5))
    for k in range(200):
        try:
            ledger.record(10 * k, "gradient", "gaussian", np.array([9.0]), sampling)
        except BudgetExceeded:
            break
    assert 3 < len(ledger) < 200
    assert guarantee(ledger.releases(), 1e-5).max() <= 3.0


def test_epochs_of_different_lengths_are_accounted_apart():
    # Little noise in steps 2 and 3 only: one epoch of two batches, but two epochs of three.
    noise = [50.0, 50.0, 0.5, 0.5, 50.0, 50.0]
    rates = np.array([1 / 2, 1 / 3, *(1 / np.arange(4, 40))])
    lines = [
        Release(t, "gradient", "gaussian", np.full(len(rates), m), "permutation", rates, "replace-one")
        for t, m in enumerate(noise)
    ]
    alone = [line._replace(multipliers=line.multipliers[1:2], rates=rates[1:2]) for line in lines]
    assert guarantee(lines, 1e-5)[1] == pytest.approx(guarantee(alone, 1e-5)[0])
    assert guarantee(lines, 1e-5)[1] > 1.3 * guarantee(lines, 1e-5)[0]


def test_a_plan_does_not_hide_what_is_in_the_ledger_already():
    plan = [Release(t, "gradient", "gaussian", np.array([9.0]), "none", np.ones(1), "add-remove") for t in range(20)]
    one = Sampling("none", np.ones(1), "add-remove")
    ledger = Ledger()
    ledger.record(100, "other", "gaussian", np.array([1.5]), one)
    ledger.budget = Budget(3.0, 1e-5)
    ledger.budget.accept(plan)
    for t in range(20):
        try:
            ledger.record(t, "gradient", "gaussian", np.array([9.0]), one)
        except BudgetExceeded:
            break
    assert len(ledger) < 21
    assert guarantee(ledger.releases(), 1e-5).max() <= 3.0


def test_processes_that_share_a_budget_refuse_the_same_release():
    noise = np.array([9.0, 3.0, 9.0])
    plan = [Release(t, "gradient", "gaussian", noise, "none", np.ones(3), "add-remove") for t in range(50)]
    whole = Budget(3.0, 1e-5)
    whole.accept(plan)
    parts = {(0, 1): whole.among(np.array([0, 1])), (2,): whole.among(np.array([2]))}
    everyone = Sampling("none", np.ones(3), "add-remove")
    made, refusal = spend(Ledger(budget=whole), everyone, noise, most=50)
    assert 0 < made < 50
    assert "node 1 has spent" in refusal
    for block, budget in parts.items():
        ledger = Ledger(budget=budget)
        own = Sampling("none", np.ones(len(block)), "add-remove")
        assert spend(ledger, own, noise[list(block)], most=50) == (made, refusal)
        assert len(ledger) == made


def test_what_was_not_planned_is_refused_where_processes_share_a_budget():
    plan = [
        Release(t, "gradient", "gaussian", np.array([9.0, 9.0]), "none", np.ones(2), "add-remove") for t in range(3)
    ]
    whole, one = Budget(5.0, 1e-5), Sampling("none", np.ones(1), "add-remove")
    whole.accept(plan)
    ledger = Ledger(budget=whole.among(np.array([1])))
    ledger.record(0, "gradient", "gaussian", np.array([9.0]), one)
    for step, purpose, noise in [(1, "gradient", 8.9), (1, "other", 9.0), (3, "gradient", 9.0)]:
        with pytest.raises(TacitError, match=f"allows what was planned, and step {step} is not"):
            ledger.record(step, purpose, "gaussian", np.array([noise]), one)
    assert len(ledger) == 1
    earlier = Ledger()
    earlier.record(0, "other", "gaussian", np.array([9.0]), one)
    earlier.budget = whole.among(np.array([1]))
    with pytest.raises(TacitError, match="allows what was planned"):
        earlier.record(0, "gradient", "gaussian", np.array([9.0]), one)
