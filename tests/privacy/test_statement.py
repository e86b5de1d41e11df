import math

import numpy as np
import pytest

from tacit.privacy import Exact, Gaussian, Ledger, Privacy, Release, Sampling, ledger_guarantee, rounded_up


def filled(kind, relation, rounds, noise=lambda t: 2.0, rates=(0.1, 0.05)):
    ledger = Ledger()
    for t in range(rounds):
        sampling = Sampling(kind, np.array(rates), relation)
        ledger.record(Release(t, "gradient", Gaussian(noise(t)), sampling))
        yield ledger


def test_an_empty_ledger_has_epsilon_0():
    spent, reason = ledger_guarantee(Ledger(), 1e-5)
    assert spent.max(initial=0.0) == 0
    assert reason is None


def test_the_reason_for_no_guarantee_is_given():
    ledger = Ledger()
    ledger.record(Release(0, "gradient", Exact(), Sampling("none", np.ones(2), "add-remove")))
    spent, reason = ledger_guarantee(ledger, 1e-5)
    assert math.isinf(spent.max())
    assert reason == "values leave the nodes without noise"


def test_a_value_that_bypassed_the_mechanism_voids_the_guarantee():
    *_, ledger = filled("poisson", "add-remove", 3)
    ledger.open(2, "peek")
    spent, reason = ledger_guarantee(ledger, 1e-5)
    assert math.isinf(spent.max())
    assert '"peek" of step 2' in reason


def test_statement_in_words():
    none = Privacy(None, 1.0, 1e-5, reason="values leave the nodes without noise")
    assert none.sentence() == (
        "No privacy is guaranteed: values leave the nodes without noise. The paper's formula claims ε = 1."
    )
    assert none.as_dict()["guaranteed"] is None
    public = "the stated number of records per node is public"
    assert public in Privacy(1.0, None, 1e-5, relation="add-remove").sentence()
    some = Privacy(1.5, None, 1e-5, relation="replace-one", adversary="an observer", assumes="L = 2", note="A note.")
    assert some.sentence() == (
        "Guaranteed ε = 1.5, δ = 1e-05 per record, against an observer. Neighbouring data sets: one record of one node "
        "is replaced by another. Assumption: L = 2. A note."
    )


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.99995, 1.0, 2.9991, 13.20499, 1234.56])
def test_printed_epsilon_is_rounded_up(epsilon):
    for digits in (3, 4):
        assert epsilon <= float(rounded_up(epsilon, digits)) <= epsilon * (1 + 10.0 ** (1 - digits))
