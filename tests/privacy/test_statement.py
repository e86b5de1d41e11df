import math

import numpy as np
import pytest

from tacit.privacy.bounded import Sampling
from tacit.privacy.ledger import Ledger
from tacit.privacy.planning import guarantee
from tacit.privacy.statement import Meter, Privacy, assess


def filled(kind, relation, rounds, noise=lambda t: 2.0, rates=(0.1, 0.05)):
    ledger = Ledger()
    for t in range(rounds):
        sampling = Sampling(kind, np.array(rates), relation)
        ledger.record(t, "gradient", "gaussian", np.full(2, noise(t)), sampling)
        yield ledger


@pytest.mark.parametrize(
    ("kind", "relation"),
    [
        ("poisson", "add-remove"),
        ("poisson", "replace-one"),
        ("without-replacement", "replace-one"),
        ("permutation", "replace-one"),
    ],
)
def test_the_meter_shows_what_the_ledger_says(kind, relation):
    meter = None
    for t, ledger in enumerate(filled(kind, relation, 30, noise=lambda t: 2.0 - t / 50)):
        meter = meter or Meter(ledger, 1e-5)
        if t % 10 == 9:
            assert meter.epsilon() == pytest.approx(guarantee(ledger.releases(), 1e-5).max(), rel=0.01)


def test_an_empty_ledger_has_cost_nothing():
    spent, reason = assess(Ledger(), 1e-5)
    assert spent.max(initial=0.0) == 0
    assert reason is None
    assert Meter(Ledger(), 1e-5).epsilon() == 0


def test_no_guarantee_comes_with_its_reason():
    ledger = Ledger()
    ledger.record(0, "gradient", "exact", np.zeros(2), Sampling("none", np.ones(2), "add-remove"))
    spent, reason = assess(ledger, 1e-5)
    assert math.isinf(spent.max())
    assert reason == "values left the nodes without noise"
    assert math.isinf(Meter(ledger, 1e-5).epsilon())


def test_a_value_that_bypassed_the_mechanism_voids_the_guarantee():
    *_, ledger = filled("poisson", "add-remove", 3)
    ledger.open(2, "peek")
    spent, reason = assess(ledger, 1e-5)
    assert math.isinf(spent.max())
    assert '"peek" of step 2' in reason


def test_sentences():
    none = Privacy(None, 1.0, 1e-5, reason="values left the nodes without noise")
    assert none.sentence() == (
        "No privacy is guaranteed (claimed by the paper's formula: ε = 1): values left the nodes without noise."
    )
    assert none.as_dict()["guaranteed"] is None
    some = Privacy(1.5, None, 1e-5, relation="replace-one", adversary="sees all")
    assert (
        "Guaranteed ε = 1.5 at δ = 1e-05 for each record, neighbouring data sets: one record of one node replaced"
        in some.sentence()
    )
