"""`tacit network init` creates networks that load without changes, and overwrites nothing."""

import socket
import stat

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.runs import Config, from_config
from tacit.sites import hosts
from tacit.sites.network_config import NetworkConfig
from tacit.sites.setup import create_network
from tacit.sites.site_config import SiteConfig

SMALL = {"rounds": 3, "algorithm": {"name": "dyn-d2p", "noise_multiplier": 1.0}, "batch": {"size": 8}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return create_network(tmp_path_factory.mktemp("made") / "net", 3, Config.parse(SMALL))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_every_site_folder_has_only_its_own_files(made):
    folder = made.network.parent
    assert names(folder) == ["authority", "network.toml", "simulation.toml", "site-1", "site-2", "site-3"]
    assert names(folder / "authority") == ["authority.crt", "authority.key"]
    for site in ("site-1", "site-2", "site-3"):
        assert names(folder / site) == ["authority.crt", "node.toml", "records.npz", f"{site}.crt", f"{site}.key"]
        assert stat.S_IMODE((folder / site).stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / site / f"{site}.key").stat().st_mode) == 0o600


def test_network_has_the_settings_of_the_config(made):
    network = NetworkConfig.load(made.network)
    simulation = Config.load(made.simulation)
    assert network.config(simulation.data, simulation.sharding) == simulation.model_copy(update={"name": "network"})
    assert simulation.graph.parameters["nodes"] == 3


def test_records_are_the_shards_of_the_simulation(made):
    task = from_config(Config.load(made.simulation)).task
    for node, part in zip(made.nodes, task.shards, strict=True):
        with np.load(node.parent / "records.npz") as file:
            assert np.array_equal(file["x"], task.data.x[part].numpy())
            assert np.array_equal(file["y"], task.data.y[part].numpy())
            assert np.array_equal(file["x_test"], task.data.test_x.numpy())


def test_ports_are_free_and_distinct(made):
    sites = [SiteConfig.load(node) for node in made.nodes]
    addresses = [site.listen_address for site in sites] + [site.metrics_address for site in sites]
    assert [site.listen_address for site in sites] == [member.address for member in sites[0].network_config.sites]
    assert len(set(addresses)) == 6
    for address in addresses:
        host, _, port = address.partition(":")
        assert host == "127.0.0.1"
        with socket.socket() as free:
            free.bind((host, int(port)))


def test_used_ports_are_not_assigned(monkeypatch):
    monkeypatch.setattr(hosts, "_LOCAL_PORTS", range(20_000, 20_040))
    with socket.socket() as used:
        used.bind(("127.0.0.1", 20_017))
        assert all(20_017 not in pair for _ in range(20) for pair in hosts.assign_ports((), 15))
        with pytest.raises(TacitError, match="does not have 40 free ports"):
            hosts.assign_ports((), 20)


def test_hosts_of_the_sites(tmp_path):
    made = create_network(tmp_path / "net", 2, Config.parse(SMALL), hosts=["a.example", "10.1.2.3"])
    sites = [SiteConfig.load(node) for node in made.nodes]
    assert [member.address for member in sites[0].network_config.sites] == ["a.example:7401", "10.1.2.3:7402"]
    assert [site.listen_address for site in sites] == ["[::]:7401", "[::]:7402"]
    with pytest.raises(TacitError, match="Got 2 hosts for 3 sites"):
        create_network(tmp_path / "more", 3, Config.parse(SMALL), hosts=["a.example", "b.example"])
    assert names(tmp_path) == ["net"]


def test_files_of_the_config_are_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "links.csv").write_text("0 1\n1 2\n2 0\n")
    graph = {"name": "edges", "nodes": 3, "path": "links.csv", "directed": False}
    made = create_network(tmp_path / "net", 3, Config.parse({**SMALL, "graph": graph}))
    assert (tmp_path / "net" / "links.csv").read_text() == "0 1\n1 2\n2 0\n"
    monkeypatch.chdir("/")
    network = NetworkConfig.load(made.network)
    assert network.graph.parameters["path"] == str(tmp_path / "net" / "links.csv")


@pytest.mark.parametrize(
    ("changes", "sites", "sentence"),
    [
        ({}, 1, "at least 2 sites, got 1"),
        ({"algorithm": {"name": "dyn-d2p", "lrr": 1}}, 3, '"lrr"; did you mean "lr"'),
        ({"measure": ["stationarity"]}, 3, "which sites do not send: remove measure"),
        ({"batch": {"size": 1000}}, 3, "batch.size is 1000, but node "),
        ({"algorithm": {"name": "ppgl"}}, 3, "requires values for: beta, rho, lam"),
    ],
)
def test_refused_without_leaving_files(tmp_path, changes, sites, sentence):
    with pytest.raises(TacitError, match=sentence):
        create_network(tmp_path / "net", sites, Config.parse({**SMALL, **changes}))
    assert names(tmp_path) == []


def test_existing_files_are_not_overwritten(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "mine").write_text("dear")
    with pytest.raises(TacitError, match="is not empty"):
        create_network(tmp_path / "net", 2, Config.parse(SMALL))
    assert names(tmp_path) == ["net"]
    assert names(tmp_path / "net") == ["mine"]


def test_init_command(tacit, tmp_path):
    folder = tmp_path / "mine" / "net"
    done = tacit("network", "init", str(folder), "--sites", "2", "--set", "rounds=3", "--noise-seed", "0")
    assert (done.code, done.err) == (0, "")
    assert f"tacit up {folder}" in done.out
    assert f"tacit train {folder}/simulation.toml" in done.out
    assert "tacit node site-1/node.toml" in done.out
    sites = [SiteConfig.load(folder / name / "node.toml") for name in ("site-1", "site-2")]
    assert [site.noise_seed for site in sites] == [0, 0]
    again = tacit("network", "init", str(folder), "--sites", "2")
    assert again.code == 2
    assert "is not empty" in again.err


def test_graph_learning_network(tmp_path):
    ppgl = {"name": "ppgl", "beta": 0.1, "rho": 1.0, "lam": 0.1}
    made = create_network(tmp_path / "net", 3, Config.parse({"algorithm": ppgl, "graph": "complete"}))
    assert made.simulation is None
    assert NetworkConfig.load(made.network).data.vertices == 20
    with np.load(made.nodes[2].parent / "records.npz") as file:
        assert torch.from_numpy(file["signals"]).shape == (500, 20)
