"""Every mistake of the gallery is found, and its sound twin is not accused.

An audit of a sound mechanism fails with a probability of at most 1.5 (1 − confidence): 1.5 % here. How often broken
ones slip through is measured in test_full.py.
"""

import pytest

from tacit.audit.gallery import GALLERY, Gossip


@pytest.mark.parametrize("name", GALLERY)
def test_the_mistake_is_found(name):
    found = GALLERY[name].examine(broken=True, trials=12_000, confidence=0.99)
    assert not found.holds
    assert "THE GUARANTEE IS BROKEN" in found.sentence()


@pytest.mark.parametrize("name", GALLERY)
def test_its_sound_twin_passes(name):
    found = GALLERY[name].examine(broken=False, trials=12_000, confidence=0.99)
    assert found.holds
    assert found.lower > 0.2 * min(found.guaranteed, 5)  # and not because nobody looked


def test_every_exhibit_says_what_its_mistake_is():
    for exhibit in GALLERY.values():
        assert exhibit.broken.__doc__ not in (None, Gossip.__doc__)
        assert exhibit.broken is not Gossip
