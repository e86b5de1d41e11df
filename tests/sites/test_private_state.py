"""The key of a site's noise is created once, private to its owner, and never used on other values."""

import os
import shutil
import stat

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import NOISE_KEY_FILE as KEY
from tacit.privacy import Ledger
from tacit.runs import PrivacyMeter
from tacit.sites.build import build_site
from tacit.sites.private_state import LEDGER, open_private_state
from tacit.sites.site_config import SiteConfig

from .small_network import change_toml, first_release


def test_key_is_created_once_and_private(node):
    site = SiteConfig.load(node)
    first, path = first_release(site), site.state / KEY
    before = path.read_bytes()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    (site.state / LEDGER).unlink()
    Ledger(site.state / LEDGER, durable=True)  # the state after a crash before the release was recorded
    assert torch.equal(first_release(site), first)
    assert path.read_bytes() == before


def test_every_site_has_its_own_key(three_sites, tmp_path):
    noises = []
    for place in ("a", "b"):
        shutil.copytree(three_sites, tmp_path / place)
        part = build_site(SiteConfig.load(tmp_path / place / "site-1" / "node.toml"))
        noises.append(part.noise.words("test", np.array([0]), 0, 4))
        assert (part.noise.reproducible, part.noise.simulated) == (True, False)
    assert not torch.equal(*noises)


def test_concurrent_processes_share_one_key(tmp_path, monkeypatch):
    """Both find no key and create one; both then use the one that was linked first."""
    Ledger(tmp_path / LEDGER)
    before, first = os.link, []

    def slow(source, target):
        monkeypatch.setattr(os, "link", before)
        first.append(open_private_state(tmp_path, b"run")[1])
        before(source, target)

    monkeypatch.setattr(os, "link", slow)
    second = open_private_state(tmp_path, b"run").noise
    words = [noise.words("test", np.array([0]), 0, 4) for noise in (*first, second)]
    assert torch.equal(*words)
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {LEDGER, KEY}


def test_missing_key_is_refused(node):
    site = SiteConfig.load(node)
    first_release(site)
    (site.state / KEY).unlink()
    with pytest.raises(TacitError, match=r"noise.key is missing, but the ledger beside it contains releases"):
        build_site(site)


def test_missing_ledger_is_refused(node):
    site = SiteConfig.load(node)
    first_release(site)
    (site.state / LEDGER).unlink()
    with pytest.raises(TacitError, match=r"ledger\.sqlite is missing, so past releases are unknown"):
        build_site(site)
    assert not (site.state / LEDGER).exists()


def test_damaged_key_is_refused(node):
    site = SiteConfig.load(node)
    build_site(site)
    (site.state / KEY).write_bytes(b"short")
    with pytest.raises(TacitError, match=r"noise\.key is damaged. Restore it to resume"):
        build_site(site)


@pytest.mark.parametrize("changed", ["network", "records"])
def test_noise_is_not_used_on_other_values(node, changed):
    site = SiteConfig.load(node)
    first_release(site)
    if changed == "network":
        change_toml(site.network, rounds=5)
    else:
        path = node.parent / "records.npz"
        with np.load(path) as file:
            arrays = dict(file)
        arrays["x"][0] += 1
        np.savez(path, **arrays)
    with pytest.raises(TacitError, match="belongs to another run, or the settings or the data have changed"):
        build_site(SiteConfig.load(node))


def test_everything_may_change_before_the_first_release(node):
    site = SiteConfig.load(node)
    build_site(site)
    before = (site.state / KEY).read_bytes()
    change_toml(site.network, rounds=5)
    build_site(SiteConfig.load(node))
    assert (site.state / KEY).read_bytes() != before


def test_addresses_may_change_at_any_time(node):
    site = SiteConfig.load(node)
    first_release(site)
    sites = [{"name": name, "address": f"10.0.0.9:{7000 + i}"} for i, name in enumerate(site.network_config.names)]
    change_toml(site.network, sites=sites)
    build_site(SiteConfig.load(node))


def test_seed_is_refused_where_a_key_exists(node):
    build_site(SiteConfig.load(node))
    change_toml(node, noise_seed=5)
    with pytest.raises(TacitError, match=r"noise_seed cannot be used in .*: use another state folder"):
        build_site(SiteConfig.load(node))


def test_only_seeded_noise_is_called_a_simulation(node):
    """Noise from a secret key is repeatable too, but not a simulation."""
    part = build_site(SiteConfig.load(node))
    assert "SIMULATION" not in (PrivacyMeter(part.task, part.algorithm, part.delta).spent(0).note or "")
    change_toml(node, noise_seed=5, state="other")
    part = build_site(SiteConfig.load(node))
    assert "SIMULATION" in PrivacyMeter(part.task, part.algorithm, part.delta).spent(0).note
