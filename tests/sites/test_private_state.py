"""The key of a site's noise is made once, kept by its owner, and never put on other values."""

import os
import shutil
import stat

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.runs import PrivacyMeter
from tacit.sites.build import build_site
from tacit.sites.config import SiteConfig
from tacit.sites.private_state import KEY, LEDGER, open_private_state

from .built import change, released


def test_the_key_is_made_once_and_for_the_owner_only(node):
    site = SiteConfig.load(node)
    first, path = released(site), site.state / KEY
    before = path.read_bytes()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    (site.state / LEDGER).unlink()
    Ledger(site.state / LEDGER, durable=True)  # as after a crash before the release was written down
    assert torch.equal(released(site), first)
    assert path.read_bytes() == before


def test_keys_differ(ready, tmp_path):
    noises = []
    for place in ("a", "b"):
        shutil.copytree(ready, tmp_path / place)
        part = build_site(SiteConfig.load(tmp_path / place / "site-1" / "node.toml"))
        noises.append(part.noise.words("test", np.array([0]), 0, 4))
        assert (part.noise.reproducible, part.noise.simulated) == (True, False)
    assert not torch.equal(*noises)


def test_two_processes_at_once_have_one_key(tmp_path, monkeypatch):
    """Both find no key, and both make one: that of the first is the key of both."""
    Ledger(tmp_path / LEDGER)
    before, first = os.link, []

    def slow(source, target):
        monkeypatch.setattr(os, "link", before)
        first.append(open_private_state(tmp_path, b"run")[1])
        before(source, target)

    monkeypatch.setattr(os, "link", slow)
    _, second = open_private_state(tmp_path, b"run")
    words = [noise.words("test", np.array([0]), 0, 4) for noise in (*first, second)]
    assert torch.equal(*words)
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {LEDGER, KEY}


def test_a_lost_key(node):
    site = SiteConfig.load(node)
    released(site)
    (site.state / KEY).unlink()
    with pytest.raises(TacitError, match=r"noise.key is lost, and with it the noise of what .*ledger.sqlite says"):
        build_site(site)


def test_a_lost_ledger(node):
    site = SiteConfig.load(node)
    released(site)
    (site.state / LEDGER).unlink()
    with pytest.raises(TacitError, match="what was released is not known: put it back"):
        build_site(site)
    assert not (site.state / LEDGER).exists()


def test_a_damaged_key(node):
    site = SiteConfig.load(node)
    build_site(site)
    (site.state / KEY).write_bytes(b"short")
    with pytest.raises(TacitError, match=r"noise\.key is damaged: it must have 64 bytes, and has 5"):
        build_site(site)


@pytest.mark.parametrize("what", ["network", "records"])
def test_noise_is_not_put_on_other_values(node, what):
    site = SiteConfig.load(node)
    released(site)
    if what == "network":
        change(site.network, rounds=5)
    else:
        path = node.parent / "records.npz"
        with np.load(path) as file:
            arrays = dict(file)
        arrays["x"][0] += 1
        np.savez(path, **arrays)
    with pytest.raises(TacitError, match="made for another run: the network or this site's data have changed"):
        build_site(SiteConfig.load(node))


def test_until_something_has_left_all_may_change(node):
    site = SiteConfig.load(node)
    build_site(site)
    before = (site.state / KEY).read_bytes()
    change(site.network, rounds=5)
    build_site(SiteConfig.load(node))
    assert (site.state / KEY).read_bytes() != before


def test_addresses_may_change(node):
    site = SiteConfig.load(node)
    released(site)
    sites = [{"name": name, "address": f"10.0.0.9:{7000 + i}"} for i, name in enumerate(site.network_config.names)]
    change(site.network, sites=sites)
    build_site(SiteConfig.load(node))


def test_a_seed_is_not_mixed_with_a_key(node):
    build_site(SiteConfig.load(node))
    change(node, noise_seed=5)
    with pytest.raises(TacitError, match="noise_seed protects nothing: give it a state of its own"):
        build_site(SiteConfig.load(node))


def test_what_is_said_of_the_noise(node):
    """A site repeats its noise from a secret key, and that is no simulation; from a seed it is one."""
    part = build_site(SiteConfig.load(node))
    assert "simulation" not in (PrivacyMeter(part.task, part.algorithm, part.delta).planned().note or "")
    change(node, noise_seed=5, state="other")
    part = build_site(SiteConfig.load(node))
    assert "this is a simulation" in PrivacyMeter(part.task, part.algorithm, part.delta).planned().note
