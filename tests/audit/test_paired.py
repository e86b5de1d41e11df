"""Audits of paired noise: an eavesdropper, with and without a colluder, does not exceed the guarantee."""

import pytest

from tacit.audit import audit, paired_trials
from tacit.privacy import epsilon_to_mu
from tacit.runs import Config


def paired(colluders, algorithm="const-d2p", **privacy):
    target = {"epsilon": 3.0, "delta": 0.01, "noise": "paired", "colluders": colluders, **privacy}
    return Config.parse({"algorithm": algorithm, "batch": {"size": "all"}, "privacy": target})


@pytest.mark.parametrize("algorithm", ["const-d2p", "dp-sgd", "porter", "prisma"])
@pytest.mark.parametrize("colluders", [0, 1])
def test_the_guarantee_holds_and_the_attack_is_strong(algorithm, colluders):
    result = audit(paired(colluders, algorithm), trials=2000, rounds=2)
    assert result.holds
    assert result.guaranteed <= 3.0
    assert result.lower > 0.3  # the attack uses the noise that it knows


def test_a_colluder_separates_as_well_as_planned_and_better_if_it_was_not_planned(monkeypatch):
    """The distance of the scores estimates μ of the guarantee. Against noise for no colluders, one has more than μ."""
    planned = audit(paired(1), trials=6000, rounds=2)
    mu = epsilon_to_mu(planned.guaranteed, planned.delta)
    assert planned.separation == pytest.approx(mu, rel=0.08)
    solve = paired_trials.solve_pairs
    monkeypatch.setattr(paired_trials, "solve_pairs", lambda *given: solve(*given[:3], 0, given[4]))
    assert audit(paired(1, ratio=30.0), trials=6000, rounds=2).separation > 1.12 * mu
