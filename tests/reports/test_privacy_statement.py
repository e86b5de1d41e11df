"""The privacy statement on the page of a run."""

from dataclasses import replace

import pytest

from tacit.privacy import Privacy
from tacit.reports import RunRecord, limitations, privacy_statement


@pytest.fixture(scope="session")
def changing(finished):
    return RunRecord.read(finished["changing"])


def statement(record, **privacy):
    """The statement by term, with the given privacy in place of the run's own."""
    if privacy:
        record = replace(record, privacy=Privacy(**{"delta": 1e-4, **privacy}))
    return dict(privacy_statement(record))


def test_statement_has_every_fact(changing):
    items = statement(changing)
    assert list(items) == [
        "Guaranteed (simulated) ε",
        "Claimed ε",
        "δ",
        "Protected unit",
        "Neighbouring data sets",
        "Adversary",
        "What ε means",
        "Releases",
        "Notes",
    ]
    assert items["δ"] == "0.0001 (one in 10,000)."
    assert "add-remove" in items["Neighbouring data sets"]
    assert "12 times" in items["Releases"]
    assert " % of its records (Poisson sampling)" in items["Releases"]
    assert "An attack with 1 % false positives succeeds with probability at most " in items["What ε means"]
    assert "Gaussian noise of 1.06 to 2 times the sensitivity to one record" in items["Releases"]


def test_run_without_noise_guarantees_nothing(finished):
    plain = RunRecord.read(finished["plain"])
    items = statement(plain)
    assert items["Guaranteed ε"] == "No guarantee: values leave the nodes without noise."
    assert items["Protected unit"].startswith("Nothing is protected")
    assert "without noise" in items["Releases"]
    assert "What ε means" not in items
    assert all(row["guaranteed"] is None for row in plain.nodes)


def test_claim_is_compared_with_the_guarantee(changing):
    too_low = statement(changing, guaranteed=3.0, claimed=1.0)
    assert too_low["Claimed ε"] == ("1, by the paper’s formula. The claim is too low: rely on the guaranteed ε.")
    assert "higher than necessary" in statement(changing, guaranteed=1.0, claimed=3.0)["Claimed ε"]
    assert "agrees" in statement(changing, guaranteed=1.0, claimed=1.0)["Claimed ε"]
    assert statement(changing, guaranteed=1.0, claimed=None)["Claimed ε"].startswith("No claim")
    unsupported = statement(changing, guaranteed=None, claimed=1.0, reason="a reason")
    assert "Nothing here supports the claim" in unsupported["Claimed ε"]


def test_assumptions_and_weak_protection_are_stated(changing):
    items = statement(changing, guaranteed=1.0, claimed=None, assumes="the moon is far away")
    assert items["Assumptions"] == "The moon is far away."
    assert "weak protection" not in items["What ε means"]
    assert "weak protection" in statement(changing, guaranteed=8.0, claimed=None)["What ε means"]


def test_limitations_state_the_seed_of_a_simulation(changing):
    assert any("seed 0" in line for line in limitations(changing))
    secret = replace(changing, result={**changing.result, "simulated": False})
    assert not any("seed" in line for line in limitations(secret))
