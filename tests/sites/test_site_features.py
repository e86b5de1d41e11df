"""Sites with features: every site applies the same map, and trains as the simulation does."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import tacit
from tacit.errors import TacitError
from tacit.runs import Config, build_data, from_config
from tacit.sites.build import build_site
from tacit.sites.description import first_difference
from tacit.sites.network_config import NetworkConfig
from tacit.sites.setup import create_network
from tacit.sites.site_config import SiteConfig
from tacit.tasks import PixelScale

from .paired_sites import change_network
from .six_sites import DYN_D2P, create_six_sites, run_beside_simulation
from .small_network import BASE, change_toml, create_small_network

FEATURES = {"name": "digits", "features": ["gradients", "pixels"], "whiten": "shapes", "rank": 30}
CODE = "SCALE = 2\n\n\ndef bent(record):\n    return (record.flatten() * SCALE).tanh()\n"


@pytest.mark.usefixtures("one_torch_thread")
def test_models_equal_those_of_the_simulation(tmp_path):
    nodes, results, simulated = run_beside_simulation(tmp_path, **DYN_D2P, data=FEATURES)
    assert {result["rounds"] for result in results} == {6}
    assert {node.parts.task.data.inputs for node in nodes} == {(30,)}
    raw = simulated.task.data.raw[1]
    assert tuple(raw.shape[1:]) == (1, 8, 8)
    loaded = tacit.load(nodes[0].site.state)
    np.testing.assert_array_equal(loaded.predict(raw), nodes[0].run.predict(raw))


def test_own_features_of_sites_in_different_folders(tmp_path):
    """Their files are copied to network.toml, and their names have no folder."""
    code = tmp_path / "mine.py"
    code.write_text(CODE)
    _, files = create_six_sites(tmp_path, **DYN_D2P, data={"name": "digits", "features": [f"{code}:bent"]})
    shutil.copytree(tmp_path / "net", tmp_path / "other")
    here = build_site(SiteConfig.load(files[0]))
    there = build_site(SiteConfig.load(tmp_path / "other" / "site-2" / "node.toml"))
    assert here.task.data.inputs == (64,)
    assert here.description.text == there.description.text
    (tmp_path / "other" / "mine.py").write_text(CODE.replace("= 2", "= 3"))
    changed = build_site(SiteConfig.load(tmp_path / "other" / "site-3" / "node.toml"))
    assert first_difference(here.description, changed.description).startswith("features is ")


@pytest.mark.parametrize("changes", [{"rank": 29}, {"whiten": "none", "rank": None}, {"features": ["gradients"]}])
def test_other_features_are_another_network(tmp_path, changes):
    _, files = create_six_sites(tmp_path, **DYN_D2P, data=FEATURES)
    mine = build_site(SiteConfig.load(files[0])).description
    table = {"inputs": [1, 8, 8], "classes": 10, **{**FEATURES, **changes}}
    change_network(tmp_path / "net", data={k: v for k, v in table.items() if k != "name" and v is not None})
    theirs = build_site(SiteConfig.load(files[1])).description
    assert first_difference(mine, theirs) is not None
    assert mine.features != theirs.features


def test_standardised_pixels_are_declared(tmp_path, monkeypatch):
    """Whitening with shapes needs them: without the numbers, sites would have other features than the simulation."""
    scale = PixelScale((0.3,), (0.35,))

    def standardised(*args):
        data = build_data(*args)
        plain = data if data.features is None else replace(data, x=data.raw[0], test_x=data.raw[1], features=None)
        parts = {"x": (plain.x - 0.3) / 0.35, "test_x": (plain.test_x - 0.3) / 0.35}
        from tacit.tasks import with_features

        return with_features(replace(plain, **parts, pixels=scale), ["pixels"], "shapes", 20)

    monkeypatch.setattr("tacit.runs.build.build_data", standardised)
    table = {**BASE, "data": {"name": "digits", "features": ["pixels"], "whiten": "shapes", "rank": 20}}
    files = create_small_network(tmp_path / "net", table, noise_seed=5)
    declared = NetworkConfig.load(files.network).data.pixels
    assert (declared.mean, declared.std) == ((0.3,), (0.35,))
    simulated, site = from_config(Config.parse({**table, "graph": {"name": "complete", "nodes": 3}})), files.nodes[1]
    part = build_site(SiteConfig.load(site))
    assert part.task.data.features.description == simulated.task.data.features.description
    shard = simulated.task.shards[1]
    torch.testing.assert_close(part.task.data.x, simulated.task.data.x[shard])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"whiten": "shapes"}, "data.whiten has an effect only with data.features: remove it"),
        ({"rank": 3}, "data.rank has an effect only with data.features: remove it"),
        ({"pixels": {"mean": [0.1], "std": [1.0]}}, "data.pixels has an effect only with data.features"),
        ({"features": []}, "features"),
    ],
)
def test_keys_without_effect_are_refused(three_sites, tmp_path, data, words):
    shutil.copytree(three_sites, tmp_path / "net")
    change_network(tmp_path / "net", data={"inputs": [1, 8, 8], "classes": 10, **data})
    with pytest.raises(TacitError, match=words):
        NetworkConfig.load(tmp_path / "net" / "network.toml")


def test_features_of_one_site_only_are_refused(node):
    change_toml(node, data={"name": "npz", "path": "records.npz", "features": ["pixels"]})
    with pytest.raises(TacitError, match=r"data\.features is the same at all sites: move it to"):
        build_site(SiteConfig.load(node))


def test_two_files_of_the_same_name_are_refused(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(CODE + f"# {folder}\n")
    names = [f"{tmp_path}/{folder}/mine.py:bent" for folder in ("one", "two")]
    config = Config.parse({**BASE, "data": {"name": "digits", "features": names}})
    with pytest.raises(TacitError, match=r"have the name mine\.py"):
        create_network(tmp_path / "net", 3, config)
