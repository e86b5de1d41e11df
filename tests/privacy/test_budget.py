import numpy as np
import pytest

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy import Budget, Exact, Gaussian, Laplace, Ledger, Release, Sampling, epsilon, guarantee, rounded_up
from tacit.privacy.accounting.accountant import group_nodes
from tests.privacy.streams import poisson, repeated, sampling, stream

NONE = Sampling("none", np.ones(2), "add-remove")
POISSON = Sampling("poisson", np.array([0.1, 0.05]), "add-remove")


def record(ledger, step, noise, drawn, purpose="gradient"):
    ledger.record(Release(step, purpose, Gaussian(np.array(noise)), drawn))


def planned(rounds, multipliers):
    """One Gaussian release without sampling per round, with one multiplier per node."""
    drawn = Sampling("none", np.ones(len(multipliers)), "add-remove")
    return [Release(t, "gradient", Gaussian(np.array(multipliers)), drawn) for t in range(rounds)]


def spend(ledger, drawn, multipliers, most=10_000, purposes=("gradient",)):
    """Release until refused; return the number of steps that were released, and the error."""
    for step in range(most):
        for purpose in purposes:
            try:
                record(ledger, step, multipliers, drawn, purpose)
            except BudgetExceeded as refusal:
                return step, str(refusal)
    return most, ""


@pytest.mark.parametrize(("drawn", "rate", "noise"), [(NONE, 1.0, 20.0), (POISSON, 0.1, 1.5)])
def test_the_first_release_over_budget_is_refused(drawn, rate, noise):
    limit = 2.0
    made, refusal = spend(Ledger(budget=Budget(limit, 1e-5)), drawn, [noise, 2 * noise])

    def cost(steps):
        return epsilon(poisson(noise, rate, steps), 1e-5)

    assert made > 3
    assert cost(made) <= limit < cost(made + 1)
    assert f"ends before step {made}: node 0 has " in refusal
    assert rounded_up(cost(made + 1)) in refusal


@pytest.mark.parametrize(("noise", "rate", "limit"), [(1.5, 0.1, 2.0), (1.0, 0.05, 4.0)])
def test_releases_of_one_draw_are_accounted_together(noise, rate, limit):
    ledger = Ledger(budget=Budget(limit, 1e-5))
    made, _ = spend(ledger, sampling("poisson", rate), [noise], purposes=("a", "b"))
    cost = [epsilon(poisson(noise / np.sqrt(2), rate, count), 1e-5) for count in (made, made + 1)]
    assert cost[0] <= limit < cost[1]
    assert guarantee(ledger.releases(), 1e-5).max() <= limit


def test_an_accepted_plan_is_accounted_once(monkeypatch):
    budget = Budget(5.0, 1e-5)
    budget.accept(planned(20, [9.0, 9.0]))
    monkeypatch.setattr("tacit.privacy.budget.guarantee", lambda *a: pytest.fail("looked again"))
    made, _ = spend(Ledger(budget=budget), NONE, [9.0, 9.5], most=20)
    assert made == 20


def test_a_plan_is_accepted_as_far_as_it_fits():
    budget = Budget(3.0, 1e-5)
    budget.accept(planned(50, [9.0, 30.0]))
    assert not budget.covers
    made, _ = spend(Ledger(budget=budget), NONE, [9.0, 30.0])
    cost = [epsilon(repeated(Gaussian(9.0), count), 1e-5) for count in (made, made + 1)]
    assert cost[0] <= 3.0 < cost[1]


def test_releases_that_differ_from_the_plan_are_checked():
    budget = Budget(5.0, 1e-5)
    budget.accept(planned(20, [9.0]))
    ledger = Ledger(budget=budget)
    record(ledger, 0, [9.0], sampling())
    with pytest.raises(BudgetExceeded):
        record(ledger, 1, [0.1], sampling())
    with pytest.raises(BudgetExceeded):
        ledger.record(Release(1, "gradient", Exact(), sampling()))
    assert len(ledger) == 1


@pytest.mark.parametrize(
    "other",
    [
        Release(0, "gradient", Gaussian(np.array([2.0, 1.9])), POISSON),
        Release(0, "gradient", Gaussian(2.0), Sampling("poisson", np.array([0.1, 0.06]), "add-remove")),
        Release(0, "gradient", Gaussian(2.0), Sampling("poisson", POISSON.rate, "replace-one")),
        Release(0, "gradient", Gaussian(2.0), NONE),
        Release(0, "gradient", Gaussian(2.0), POISSON, unit="node"),
        Release(0, "gradient", Laplace(2.0), POISSON),
    ],
    ids=["noise", "rate", "relation", "sampling", "unit", "mechanism"],
)
def test_a_release_is_as_planned_only_if_no_node_is_protected_less(other):
    expected = Release(0, "gradient", Gaussian(2.0), POISSON)
    better = Release(0, "gradient", Gaussian(np.array([2.0, 2.1])), Sampling("poisson", POISSON.rate / 2, "add-remove"))
    assert better.is_at_least_as_private_as(expected)
    assert not other.is_at_least_as_private_as(expected)


def test_budget_is_exact_for_shrinking_noise():
    budget = Budget(3.0, 1e-5)
    ledger = Ledger(budget=budget)
    multipliers = [20 * 0.97**t for t in range(500)]
    made = 0
    try:
        for t, noise in enumerate(multipliers):
            record(ledger, t, [noise, noise], NONE)
            made += 1
    except BudgetExceeded:
        pass
    cost = [epsilon(stream([Gaussian(m) for m in multipliers[:k]]), 1e-5) for k in (made, made + 1)]
    assert cost[0] <= 3.0 < cost[1]


def test_impossible_budgets_are_refused():
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(TacitError, match="epsilon of a privacy budget"):
            Budget(bad, 1e-5)
    with pytest.raises(TacitError, match="delta of a privacy budget"):
        Budget(1.0, 1.5)


def test_groups_of_nodes_dominate_each_node():
    rng = np.random.default_rng(0)
    rates, noise = rng.uniform(0.01, 0.2, 300), rng.uniform(1.0, 3.0, 300)
    lines = repeated(Gaussian(noise), 20, Sampling("poisson", rates, "add-remove"))
    groups = group_nodes(lines)
    assert sorted(np.concatenate(groups).tolist()) == list(range(300))
    assert len(groups) <= 256
    spent = guarantee(lines, 1e-5)
    for node in rng.choice(300, 8, replace=False):
        assert spent[node] >= epsilon(poisson(noise[node], rates[node], 20), 1e-5) * (1 - 1e-6)


def test_permutations_are_checked_at_every_release():
    # Ten batches per epoch and one release per epoch: each release may contain the record.
    drawn = sampling("permutation", 0.1, "replace-one")
    ledger = Ledger(budget=Budget(3.0, 1e-5))
    for k in range(200):
        try:
            record(ledger, 10 * k, [9.0], drawn)
        except BudgetExceeded:
            break
    assert 3 < len(ledger) < 200
    assert guarantee(ledger.releases(), 1e-5).max() <= 3.0


@pytest.mark.parametrize("batches", [2, 38])
def test_epochs_of_different_lengths_are_accounted_separately(batches):
    # Little noise in two steps only: in one epoch of so many batches, but in two epochs of one batch more.
    noise = [0.5 if step in (batches, batches + 1) else 50.0 for step in range(2 * batches + 2)]
    rates = 1 / np.arange(2, 40)
    lines = stream([Gaussian(multiplier) for multiplier in noise], Sampling("permutation", rates, "replace-one"))
    longer = int(np.flatnonzero(rates == 1 / (batches + 1))[0])
    alone = [line.for_rows(np.array([longer])) for line in lines]
    spent = guarantee(lines, 1e-5)
    assert spent[longer] == pytest.approx(guarantee(alone, 1e-5)[0])
    assert spent[longer] > 1.3 * spent[longer - 1]


def test_a_plan_does_not_hide_earlier_releases():
    ledger = Ledger()
    record(ledger, 100, [1.5], sampling(), "other")
    ledger.budget = Budget(3.0, 1e-5)
    ledger.budget.accept(planned(20, [9.0]))
    for t in range(20):
        try:
            record(ledger, t, [9.0], sampling())
        except BudgetExceeded:
            break
    assert len(ledger) < 21
    assert guarantee(ledger.releases(), 1e-5).max() <= 3.0


def test_processes_that_share_a_budget_refuse_the_same_release():
    noise = np.array([9.0, 3.0, 9.0])
    whole = Budget(3.0, 1e-5)
    whole.accept(planned(50, noise))
    parts = {(0, 1): whole.for_nodes(np.array([0, 1])), (2,): whole.for_nodes(np.array([2]))}
    everyone = Sampling("none", np.ones(3), "add-remove")
    made, refusal = spend(Ledger(budget=whole), everyone, noise, most=50)
    assert 0 < made < 50
    assert "node 1 has" in refusal
    for block, budget in parts.items():
        ledger = Ledger(budget=budget)
        own = Sampling("none", np.ones(len(block)), "add-remove")
        assert spend(ledger, own, noise[list(block)], most=50) == (made, refusal)
        assert len(ledger) == made


def test_shared_budgets_refuse_unplanned_releases():
    whole = Budget(5.0, 1e-5)
    whole.accept(planned(3, [9.0, 9.0]))
    ledger = Ledger(budget=whole.for_nodes(np.array([1])))
    record(ledger, 0, [9.0], sampling())
    for step, purpose, noise in [(1, "gradient", 8.9), (1, "other", 9.0), (3, "gradient", 9.0)]:
        with pytest.raises(TacitError, match=f"admits planned releases only; step {step} is not"):
            record(ledger, step, [noise], sampling(), purpose)
    assert len(ledger) == 1
    earlier = Ledger()
    record(earlier, 0, [9.0], sampling(), "other")
    earlier.budget = whole.for_nodes(np.array([1]))
    with pytest.raises(TacitError, match="admits planned releases only"):
        record(earlier, 0, [9.0], sampling())
