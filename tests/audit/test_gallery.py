"""The audit finds every mistake of the gallery and does not report the correct mechanisms.

The audit of a correct mechanism reports a broken guarantee with a probability of at most 1.5 (1 − confidence): 1.5 %
here. test_full.py measures how often mistakes are missed.
"""

import pytest

from tacit.audit import GALLERY
from tacit.audit.broken_mechanisms import CorrectGossip


@pytest.mark.parametrize("name", GALLERY)
def test_the_mistake_is_found(name):
    found = GALLERY[name].audit(broken=True, trials=12_000, confidence=0.99)
    assert not found.holds
    assert "THE GUARANTEE IS BROKEN" in found.summary()


@pytest.mark.parametrize("name", GALLERY)
def test_the_correct_mechanism_passes(name):
    found = GALLERY[name].audit(broken=False, trials=12_000, confidence=0.99)
    assert found.holds
    assert found.lower > 0.2 * min(found.guaranteed, 5)  # the attack works


def test_every_entry_describes_its_mistake():
    for entry in GALLERY.values():
        assert entry.broken.__doc__ not in (None, CorrectGossip.__doc__)
        assert entry.broken is not CorrectGossip
