"""Configs: sections keep the defaults of the keys that they leave out, and the order of settings has no influence."""

import itertools
import json
import tomllib

import pytest
import tomli_w

import tacit
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.privacy import Ledger
from tacit.reproduce import available_experiments, load_experiment
from tacit.runs import PART_SECTIONS, Batch, Config, apply_settings, from_config, resolved_config, verify
from tacit.runs.canonical import settings_digest
from tests.runs.cases import small

DEFAULT = Config()
OWN_GRAPHS = """
import tacit

def required(nodes: int):
    return tacit.graphs.ring(nodes)

def optional(nodes: int = 4):
    return tacit.graphs.ring(nodes)
"""


def section(kind, table):
    return getattr(Config.parse({kind: table}), kind).model_dump()


@pytest.mark.parametrize("kind", PART_SECTIONS)
def test_a_part_without_a_name_has_the_default_name(kind):
    default = getattr(DEFAULT, kind).model_dump()
    assert section(kind, {}) == default
    assert section(kind, {"other": 3}) == {**default, "other": 3}
    assert section(kind, default["name"]) == default


@pytest.mark.parametrize("name", [name for name in graphs if "nodes" in graphs.options(name)])
def test_every_graph_keeps_the_number_of_nodes(name):
    assert section("graph", name)["nodes"] == section("graph", {"name": name})["nodes"] == 10
    assert section("graph", {"name": name, "nodes": 5})["nodes"] == 5


def test_five_nodes_are_enough_of_a_graph_section():
    run = from_config(Config.parse({"graph": {"nodes": 5}, "rounds": 1, "privacy": {"epsilon": 3}}))
    assert (run.config["graph"]["name"], run.network.graph.nodes) == ("one-peer-exponential", 5)
    assert section("graph", {"drop_links": 0.1})["nodes"] == 10


def test_default_parameters_do_not_follow_another_part():
    assert section("algorithm", "sgp") == {"name": "sgp"}
    assert section("graph", {"name": "python: Graph"}) == {"name": "python: Graph"}
    assert section("graph", {"name": "no-such-graph"}) == {"name": "no-such-graph"}


def test_a_graph_in_a_users_file_gets_the_nodes_that_it_requires(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN_GRAPHS)
    for name, nodes in (("required", 10), ("optional", 4)):
        config = Config.parse({"graph": f"mine.py:{name}", "algorithm": "sgp", "rounds": 1})
        assert from_config(config).network.graph.nodes == nodes
        assert resolved_config(config).graph.parameters["nodes"] == nodes


def test_checking_a_config_does_not_run_code(tmp_path):
    (tmp_path / "mine.py").write_text("raise RuntimeError('was run')")
    assert section("graph", f"{tmp_path}/mine.py:graph") == {"name": f"{tmp_path}/mine.py:graph"}


def test_other_sections_keep_their_defaults():
    given = {"batch": {"sampling": "permutation"}, "privacy": {"epsilon": 1}, "network": {"link_time": 1}}
    config = Config.parse(given)
    assert (config.batch.size, config.batch.sampling, config.batch.epochs) == (32, "permutation", 1)
    assert (config.privacy.delta, config.network.gradient_time) == (1e-5, 0.0)
    assert section("batch", {}) == DEFAULT.batch.model_dump()


def test_full_batches_are_written_as_all():
    for size in ("all", None):
        config = Config.parse({"batch": {"size": size, "relation": "replace-one"}})
        assert config.batch.size is None
        assert config.as_dict()["batch"]["size"] == "all"
        assert Config.parse(tomllib.loads(tomli_w.dumps(config.as_dict()))) == config
    assert json.loads(Batch(size=None).model_dump_json())["size"] == "all"
    assert Batch(size=7).model_dump()["size"] == 7


@pytest.mark.parametrize("size", ["everything", "", "ALL", "32"])
def test_other_words_for_a_size_are_refused(size):
    with pytest.raises(TacitError, match=r'batch.size = .* should be a whole number, or "all" for all records'):
        Config.parse({"batch": {"size": size}})


def test_all_records_are_drawn_from_the_command_line_and_python():
    given = {"algorithm": tacit.algorithms.const_d2p(noise_multiplier=1.0), "nodes": 3, "rounds": 1}
    run = tacit.train(**given, batch=None)
    assert run.config["batch"]["size"] == "all"
    assert run.task.sampler.batch.tolist() == run.task.sizes.tolist()
    assert Config.load(None, ["batch.size=all"]).batch.size is None
    assert Config.load(None, ["batch.sampling=permutation"]).batch.size == 32


def test_a_run_with_full_batches_resumes_from_its_config(tmp_path):
    run = small(batch={"size": "all"}, out=tmp_path / "run").go()
    saved = Config.load(tmp_path / "run/config.toml")
    assert saved.batch.size is None
    assert saved.as_dict() == run.config
    from_config(saved, out=tmp_path / "run", resume=True, extend=2).go()
    assert verify(tmp_path / "run").differences == ()


def test_saved_configs_of_earlier_versions_keep_their_full_batches(tmp_path):
    """They have no batch.size, which meant all records."""
    folder = tmp_path / "run"
    small(batch={"size": "all"}, out=folder).go()
    table = tomllib.loads((folder / "config.toml").read_text())
    del table["batch"]["size"]
    (folder / "config.toml").write_text(tomli_w.dumps(table))
    assert Config.load(folder / "config.toml").batch.size is None
    (tmp_path / "config.toml").write_text(tomli_w.dumps(table))
    assert Config.load(tmp_path / "config.toml").batch.size == 32
    facts = Ledger(folder / "ledger.sqlite").facts
    old = facts.read()["config"]
    del old["batch"]["size"]
    facts.write(config=old, config_digest=settings_digest(old))
    found = verify(folder)
    assert found.differences == ()
    assert "the releases are those that the config plans, with the same noise and sampling" in found.checked


SETTINGS = ["data.path=x.csv", "data=csv", "data.label=3", "graph.nodes=7", "graph=ring"]


@pytest.mark.parametrize("order", list(itertools.permutations(SETTINGS)))
def test_the_order_of_settings_has_no_influence(order):
    file = {"data": {"name": "digits", "limit": 5}, "graph": {"name": "torus", "rows": 2, "nodes": 4}, "rounds": 9}
    data, graph = {"name": "csv", "path": "x.csv", "label": 3}, {"name": "ring", "nodes": 7}
    assert apply_settings(file, order) == {"data": data, "graph": graph, "rounds": 9}
    assert Config.load(None, order).data.model_dump() == data


def test_a_table_for_a_section_does_not_remove_other_settings():
    table = 'graph={name = "ring", nodes = 5}'
    for order in itertools.permutations([table, "graph.directed=true"]):
        expected = {"graph": {"name": "ring", "nodes": 5, "directed": True}}
        assert apply_settings({"graph": {"name": "ring", "lazy": True}}, order) == expected
    for order in itertools.permutations(["batch={size = 5}", "batch.sampling=permutation"]):
        assert apply_settings({}, order) == {"batch": {"size": 5, "sampling": "permutation"}}


def test_the_last_of_two_settings_of_a_key_holds():
    assert apply_settings({}, ["rounds=5", "rounds=6"]) == {"rounds": 6}
    assert apply_settings({}, ["graph=ring", "graph=star"]) == {"graph": {"name": "star"}}
    assert apply_settings({}, ["graph=star", 'graph={name = "ring"}']) == {"graph": {"name": "ring"}}
    assert apply_settings({}, ["graph.nodes=5", "graph.nodes="]) == {"graph": {}}


def test_a_new_name_removes_the_parameters_of_the_former_part_only():
    file = {"algorithm": {"name": "dyn-d2p", "lr": 0.5}, "graph": {"rows": 2, "nodes": 6}, "model": "logistic"}
    assert apply_settings(file, ["algorithm=sgp"])["algorithm"] == {"name": "sgp"}
    assert apply_settings(file, ["algorithm=dyn-d2p"])["algorithm"] == {"name": "dyn-d2p", "lr": 0.5}
    assert apply_settings(file, ["graph=ring"])["graph"] == {"name": "ring", "nodes": 6}
    assert apply_settings(file, ["model.biases=false"])["model"] == {"name": "logistic", "biases": False}
    assert apply_settings(file, ["algorithm="])["algorithm"] == {}


def test_settings_reach_into_tables():
    nested = apply_settings({}, ["data.columns.age={range = [0, 110]}", 'data.columns."body.temp".range=[30, 45]'])
    assert nested == {"data": {"columns": {"age": {"range": [0, 110]}, "body.temp": {"range": [30, 45]}}}}
    assert apply_settings({}, ["data.columns.größe=drop"]) == {"data": {"columns": {"größe": "drop"}}}
    with pytest.raises(TacitError, match=r'setting rounds.x=3: "rounds" is not a section'):
        apply_settings({"rounds": 5}, ["rounds.x=3"])


@pytest.mark.parametrize("name", sorted(available_experiments()))
def test_every_experiment_sets_its_batch_size(name):
    experiment = load_experiment(name)
    assert experiment.study == "graphs" or experiment.base["batch"]["size"]
