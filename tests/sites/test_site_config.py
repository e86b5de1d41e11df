"""network.toml and node.toml: values, relative paths, and errors."""

import shutil
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.runs import Config, from_config
from tacit.sites.certificates import create_site_certificate
from tacit.sites.network_config import NetworkConfig
from tacit.sites.site_config import SiteConfig

SITES = [{"name": f"site-{i}", "address": f"10.0.0.{i}:7401"} for i in (1, 2, 3)]
TRAINS = {
    "name": "hospitals",
    "rounds": 9,
    "seed": 7,
    "evaluate_every": 3,
    "data": {"inputs": [1, 8, 8], "labels": [0, 1, 2]},
    "graph": {"name": "ring", "lazy": True},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 1.0},
    "model": "logistic",
    "batch": {"size": 8},
    "privacy": {"delta": 1e-4},
    "sites": SITES,
}
LEARNS = {
    "name": "sensors",
    "rounds": 9,
    "data": {"vertices": 20},
    "graph": "complete",
    "algorithm": {"name": "ppgl", "beta": 0.1, "rho": 1.0, "lam": 0.1},
    "sites": SITES,
}
NODE = {
    "name": "site-2",
    "network": "../network.toml",
    "certificates": {"certificate": "site-2.crt", "key": "site-2.key", "authority": "authority.crt"},
    "data": {"name": "npz", "path": "records.npz"},
}


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    for name in ("site-1", "site-2"):
        create_site_certificate(folder, name)
    return folder


@pytest.fixture
def written(tmp_path, signed):
    """Write network.toml, and node.toml of the second site with changes; return the path of the latter."""

    def write(shared=TRAINS, **changes):
        own = tmp_path / "site-2"
        shutil.copytree(signed, own, dirs_exist_ok=True)
        (tmp_path / "network.toml").write_text(tomli_w.dumps(shared))
        (own / "node.toml").write_text(tomli_w.dumps({**NODE, **changes}))
        return own / "node.toml"

    return write


def test_config_of_the_same_run_as_a_simulation():
    config = NetworkConfig.parse(TRAINS).config()
    written = {key: value for key, value in TRAINS.items() if key not in ("data", "sites")}
    assert config == Config.parse({**written, "graph": {"name": "ring", "lazy": True, "nodes": 3}})
    run = from_config(config)  # with the default data: network.toml names none
    assert run.network.graph.nodes == 3


def test_defaults_are_those_of_tacit_train():
    required = {key: TRAINS[key] for key in ("name", "rounds", "data", "graph", "algorithm", "model", "sites")}
    config = NetworkConfig.parse(required).config()
    assert (config.batch, config.privacy, config.seed) == (Config().batch, Config().privacy, Config().seed)


def test_classes_are_numbered_from_0():
    classes = {**TRAINS, "data": {"inputs": [5], "classes": 3}}
    assert NetworkConfig.parse(classes).data.label_order == NetworkConfig.parse(TRAINS).data.label_order == (0, 1, 2)
    named = {**TRAINS, "data": {"inputs": [5], "labels": ["no", "yes"]}}
    assert NetworkConfig.parse(named).data.label_order == ("no", "yes")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"rouns": 3}, 'net.toml "rouns"; did you mean "rounds"?'),
        ({"rounds": 0}, "net.toml: rounds = 0 should be greater"),
        ({"measure": ["stationarity"]}, 'unknown key of net.toml "measure"'),
        ({"data": {"input": [3], "classes": 2}}, r'unknown key of \[data\] in net.toml "input"; did you mean "inputs"'),
        ({"data": {"classes": 2}}, "dyn-d2p learns a model, so data.inputs is required"),
        ({"data": {"inputs": [3]}}, "set either data.labels or data.classes"),
        ({"data": {"inputs": [3], "classes": 2, "labels": [0, 1]}}, "set either data.labels or data.classes"),
        ({"data": {"inputs": [3], "labels": [0, 1, 0]}}, "data.labels contains 0 twice"),
        ({"data": {"inputs": [0], "classes": 2}}, "data.inputs.0 = 0 should be greater"),
        ({"data": {"inputs": [3], "classes": 2, "vertices": 4}}, "data.vertices has no effect: remove it"),
        ({"graph": {"name": "ring", "nodes": 3}}, "remove graph.nodes: it is the number of sites"),
        ({"sites": []}, "sites"),
        ({"sites": [SITES[0], SITES[0]]}, "two sites have the name site-1"),
        (
            {"sites": [SITES[0], {**SITES[1], "address": SITES[0]["address"]}]},
            "two sites have the address 10.0.0.1:7401",
        ),
        ({"sites": [{"name": "Site A", "address": "a:1"}]}, 'Invalid site name "Site A": use lower-case letters'),
        ({"sites": [{"name": "site-a", "adress": "a:1"}]}, r'key of \[sites\] in net.toml "adress"; .*"address"'),
        ({"sites": [{"name": "site-a", "address": "a"}]}, "Invalid address .*: use HOST:PORT"),
        ({"sites": [{"name": "site-a", "address": "a:99999"}]}, "Invalid address .*: use HOST:PORT"),
        ({"sites": [{"name": "site-a", "address": "http://a:1"}]}, "Invalid address .*: use HOST:PORT"),
    ],
)
def test_invalid_networks(changes, error):
    with pytest.raises(TacitError, match=error) as refused:
        NetworkConfig.parse({**TRAINS, **changes}, "net.toml")
    assert "net.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"data": {"inputs": [3]}}, "ppgl learns a graph, so data.vertices is required"),
        ({"data": {"vertices": 3, "classes": 2}}, "data.classes has no effect: remove it"),
        ({"model": "logistic"}, "model has no effect"),
        ({"batch": {"size": 3}}, "batch has no effect"),
    ],
)
def test_networks_for_graph_learning(changes, error):
    assert NetworkConfig.parse(LEARNS).config().algorithm.name == "ppgl"
    with pytest.raises(TacitError, match=error):
        NetworkConfig.parse({**LEARNS, **changes})


def test_load_site_config(written, tmp_path):
    site = SiteConfig.load(written(metrics_address="127.0.0.1:9402", peer_timeout=5))
    own = tmp_path / "site-2"
    assert site.state == own / "state"
    assert Path(site.data.parameters["path"]) == own / "records.npz"
    assert (site.network_config, site.node, site.identity.name) == (NetworkConfig.parse(TRAINS), 1, "site-2")
    assert (site.listen_address, site.metrics_address, site.peer_timeout, site.checkpoint_every) == (
        "[::]:7401",
        "127.0.0.1:9402",
        5,
        10,
    )
    assert SiteConfig.load(written(listen="127.0.0.1:99")).listen_address == "127.0.0.1:99"


def test_paths_are_relative_to_the_config_file(written, tmp_path):
    graph = {"name": "edges", "path": "links.csv", "directed": False}
    site = SiteConfig.load(written({**TRAINS, "graph": graph}, data={"name": "mine.py:records"}))
    assert Path(site.network_config.graph.parameters["path"]).resolve() == (tmp_path / "links.csv").resolve()
    assert Path(site.data.name.partition(":")[0]) == tmp_path / "site-2" / "mine.py"
    absolute = SiteConfig.load(written(state="/var/lib/tacit", data={"name": "npz", "path": "/data/all.npz"}))
    assert (absolute.state, absolute.data.parameters["path"]) == (Path("/var/lib/tacit"), "/data/all.npz")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"peer_timeut": 3}, 'node.toml "peer_timeut"; did you mean "peer_timeout"?'),
        ({"peer_timeout": 0}, "peer_timeout = 0 should be greater than 0"),
        ({"checkpoint_every": 0}, "checkpoint_every = 0 should be"),
        ({"name": "site-7"}, 'unknown site of .*network.toml "site-7"; did you mean "site-'),
        ({"name": "site-1"}, 'site-2.crt belongs to "site-2", not to "site-1"'),
        ({"network": "elsewhere.toml"}, "cannot read the config .*elsewhere.toml: No such file"),
        ({"certificates": {**NODE["certificates"], "key": "site-1.key"}}, "site-1.key is not the private key of"),
        ({"certificates": {**NODE["certificates"], "key": "none.key"}}, "Cannot read .*none.key: No such file"),
        ({"certificates": {"certificate": "site-2.crt"}}, "certificates.key is missing"),
        ({"certificates": {**NODE["certificates"], "kee": "a"}}, r'key of \[certificates\] in .* "kee"; .* "key"'),
        ({"listen": "somewhere"}, "Invalid address .*: use HOST:PORT"),
        ({"noise_seed": -1}, "noise_seed = -1 should be"),
    ],
)
def test_invalid_site_configs(written, changes, error):
    path = written(**changes)
    with pytest.raises(TacitError, match=error) as refused:
        SiteConfig.load(path)
    assert "\n" not in str(refused.value)


def test_certificate_of_another_authority_is_refused(written, tmp_path_factory):
    path, other = written(), tmp_path_factory.mktemp("other")
    create_site_certificate(other, "site-2")
    shutil.copy(other / "authority.crt", path.parent)
    with pytest.raises(TacitError, match='certificate of "site-2" is issued by an unknown authority'):
        SiteConfig.load(path)


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
KEYS = st.sampled_from(sorted(NetworkConfig.model_fields)) | st.text(max_size=5)


@given(st.sampled_from([TRAINS, LEARNS]), st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_table_is_valid_or_refused(table, changes):
    try:
        NetworkConfig.parse({**table, **changes}).config()
    except TacitError as error:
        assert str(error)  # noqa: PT017
