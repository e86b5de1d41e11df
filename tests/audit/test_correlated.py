"""Attacks on noise that is correlated in time: the guarantee is not broken, and too wide a correlation is found."""

import numpy as np
import pytest

from tacit.algorithms import algorithms
from tacit.audit import audit, audit_one_run
from tacit.audit.audit import audit_algorithm
from tacit.privacy import BandedGaussian
from tacit.runs import Batch, Config, PrivacyTarget

TIME = PrivacyTarget(correlation="time", delta=1e-5)


def attacked(*, records, rounds, multiplier, seed=0):
    """Batches of one record each, in the same order in every epoch."""
    algorithm = algorithms.build("const-d2p", {"noise_multiplier": multiplier}).with_rounds(rounds)
    batch = Batch(size=1, sampling="cyclic")
    return audit_algorithm(algorithm, batch, records, trials=12_000, privacy=TIME, confidence=0.99, seed=seed)


def test_the_guarantee_holds_and_the_attack_works():
    found = attacked(records=2, rounds=8, multiplier=1.5)
    assert found.holds
    assert found.lower > 0.2 * found.guaranteed


def test_correlation_over_more_than_an_epoch_is_found(monkeypatch):
    """The noise of all steps is correlated, although every record is in every second step."""
    monkeypatch.setattr(BandedGaussian, "bandwidths", lambda self, sampling: np.full(len(sampling.rate), self.steps))
    found = attacked(records=2, rounds=8, multiplier=1.5)
    assert not found.holds


@pytest.mark.parametrize("algorithm", ["const-d2p", "dp-sgd"])
def test_audit_of_a_config(algorithm):
    privacy = {"epsilon": 4.0, "correlation": "time"}
    batch = {"size": 36, "sampling": "cyclic"}
    config = Config.parse({"algorithm": algorithm, "privacy": privacy, "batch": batch, "rounds": 8})
    found = audit(config, trials=2500, rounds=8)
    assert found.holds
    assert 0.1 < found.lower <= found.guaranteed <= 4.0


def test_audit_in_one_run():
    privacy = {"epsilon": 8.0, "correlation": "time"}
    batch = {"size": 36, "sampling": "cyclic"}
    config = Config.parse({"algorithm": "const-d2p", "privacy": privacy, "batch": batch, "rounds": 12})
    found = audit_one_run(config, canaries=400)
    assert found.holds
    assert found.lower <= found.guaranteed <= 8.0
