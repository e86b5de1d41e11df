"""Runs with paired noise: the target ε, key graphs, refusals, and the same run from checkpoint and folder."""

import copy
import json

import networkx as nx
import numpy as np
import pytest
import torch

import tacit
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.privacy import Eavesdropper, Paired, against_colluders
from tacit.runs import EXAMPLE_CONFIG, Config, from_config
from tacit.runs.key_graph import key_edges
from tacit.runs.verification import verify
from tacit.runs.verification.rebuilt_run import RebuiltRun

QUICK = {"rounds": 6, "graph": {"name": "one-peer-exponential", "nodes": 6}, "algorithm": "const-d2p"}


def config(**privacy):
    return Config.parse({**QUICK, "privacy": {"epsilon": 2.0, "noise": "paired", **privacy}})


@pytest.mark.parametrize("sharding", ["iid", {"name": "dirichlet", "alpha": 0.5, "min_records": 40}])
def test_the_target_is_met_against_the_planned_number_of_colluders(sharding):
    table = {**QUICK, "sharding": sharding, "privacy": {"epsilon": 2.0, "noise": "paired", "colluders": 2}}
    run = from_config(Config.parse(table)).go()
    curve = run.privacy.against_colluders
    assert run.privacy.guaranteed == pytest.approx(curve[2])
    assert 1.9 < curve[2] <= 2.0
    assert curve[1] < curve[2] < curve[3]
    assert "colludes with any 2 nodes" in run.privacy.line
    assert "Count sites of one operator" in run.privacy.sentence()
    assert run.result()["privacy"]["against_colluders"] == curve
    assert against_colluders(run.task.ledger.releases(), run.delta) == curve


def test_the_mean_has_less_noise_than_with_independent_noise():
    """At so small an ε the noise dominates everything else that seeds change."""
    spread = {}
    for noise in ("independent", "paired"):
        table = copy.deepcopy(QUICK) | {"privacy": {"epsilon": 0.02, "noise": noise}}
        means = [from_config(Config.parse({**table, "seed": seed})).go().models.mean(0) for seed in range(6)]
        spread[noise] = torch.stack(means).var(0).sum()
    assert spread["paired"] < 0.6 * spread["independent"]


def test_the_example_is_at_least_two_points_more_accurate_at_a_small_epsilon():
    accuracy = {}
    for privacy in ({}, {"noise": "paired", "colluders": 2}):
        table = copy.deepcopy(EXAMPLE_CONFIG)
        table["privacy"] = {**table["privacy"], "epsilon": 0.7, **privacy}
        run = from_config(Config.parse(table)).go()
        assert run.privacy.guaranteed <= 0.7
        accuracy[bool(privacy)] = run.evaluations[-1]["accuracy"]
    assert accuracy[True] >= accuracy[False] + 0.02


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ("lt-admm-dp", "edge variables"),
        ("dp-norm", "edge variables"),
        ("dp-admm", "edge variables"),
        ({"name": "partpsp", "share": ["0.*"]}, "Laplace"),
        ("pedfl", "Laplace"),
        ({"name": "porter", "compressor": "top-k"}, "compressed"),
        ({"name": "dyn-d2p", "share": ["0.*"]}, "never mixed"),
    ],
)
def test_methods_that_do_not_keep_the_sum_refuse_it(algorithm, reason):
    table = {"algorithm": algorithm, "graph": "ring", "privacy": {"epsilon": 2.0, "noise": "paired"}}
    with pytest.raises(TacitError, match=f"cannot use paired noise: .*{reason}"):
        from_config(Config.parse(table))


@pytest.mark.parametrize("algorithm", ["const-d2p", "dyn-d2p", "dp-sgd", "porter", "prisma"])
def test_methods_that_keep_the_sum_record_paired_releases(algorithm):
    table = {"rounds": 3, "algorithm": algorithm, "graph": {"name": "ring", "nodes": 6}}
    run = from_config(Config.parse({**table, "privacy": {"epsilon": 2.0, "noise": "paired"}})).go()
    releases = list(run.task.ledger.releases())
    assert releases
    assert all(isinstance(each.mechanism, Paired) for each in releases)
    assert run.privacy.guaranteed <= 2.0


def test_settings_without_paired_noise_are_refused():
    with pytest.raises(TacitError, match='colluders has an effect only with noise = "paired"'):
        Config.parse({"privacy": {"epsilon": 1.0, "colluders": 2}})


def test_a_run_resumes_with_the_same_noise(tmp_path):
    whole = from_config(config(), out=tmp_path / "whole").go()
    run = from_config(config(), out=tmp_path / "run")
    run.rounds = 3
    run.go()
    resumed = from_config(config(), out=tmp_path / "run", resume=True).go()
    assert torch.equal(resumed.models, whole.models)
    found = verify(tmp_path / "run")
    assert not found.differences, found.differences


def test_verify_finds_a_ledger_with_other_pairs(tmp_path, monkeypatch):
    run = from_config(config(ratio=3.0), out=tmp_path / "run").go()
    assert run.privacy.against_colluders
    text = (tmp_path / "run" / "config.toml").read_text()
    assert "paired" in text
    other = from_config(config(ratio=1.0), out=tmp_path / "other").go()
    (tmp_path / "run" / "ledger.sqlite").write_bytes((tmp_path / "other" / "ledger.sqlite").read_bytes())
    assert verify(tmp_path / "run").differences
    assert other.privacy.guaranteed == pytest.approx(run.privacy.guaranteed, rel=1e-3)


def test_a_ledger_alone_gives_adversary_and_curve(tmp_path, monkeypatch):
    """Also where the run cannot be rebuilt, result.json cannot state more colluders than the ledger."""
    out = tmp_path / "run"
    from_config(config(colluders=2), out=out).go()
    monkeypatch.setattr(RebuiltRun, "build", lambda evidence: "there is no reason")
    assert not verify(out).differences
    result = json.loads((out / "result.json").read_text())
    for key, value in {"adversary": Eavesdropper(3).title, "against_colluders": [0.1] * 6}.items():
        changed = {**result, "privacy": {**result["privacy"], key: value}}
        (out / "result.json").write_text(json.dumps(changed))
        assert any(f"privacy: {key} is" in each for each in verify(out).differences)


def test_key_graphs(tmp_path):
    graph = graphs.build("ring", {"nodes": 8})
    assert len(key_edges(None, graph, 2)) == 28
    assert len(key_edges("graph", graph, 1)) == 8
    (tmp_path / "keys").write_text(
        "# a circle and its diameters\n" + "\n".join(f"{i} {(i + step) % 8}" for i in range(8) for step in (1, 4))
    )
    edges = key_edges(str(tmp_path / "keys"), graph, 2)
    assert len(edges) == 12
    assert (edges[:, 0] < edges[:, 1]).all()
    large = key_edges(None, graphs.build("ring", {"nodes": 100}), 5)
    assert set(dict(nx.Graph(large.tolist()).degree).values()) == {16}
    assert np.array_equal(large, key_edges("regular", graphs.build("ring", {"nodes": 100}), 5))


def test_key_graphs_that_colluders_can_separate_are_refused(tmp_path):
    ring = graphs.build("ring", {"nodes": 8})
    with pytest.raises(TacitError, match="shares keys with 2 nodes, so 2 colluders know all noise"):
        key_edges("graph", ring, 2)
    two = [(a + k, b + k) for k in (0, 4) for a in range(4) for b in range(a + 1, 4)] + [(3, 4)]
    (tmp_path / "keys").write_text("\n".join(f"{a} {b}" for a, b in two))
    with pytest.raises(TacitError, match="1 colluders can separate the key graph"):
        key_edges(str(tmp_path / "keys"), ring, 1)
    for text in ("0 9", "1 1", "0", "a b"):
        (tmp_path / "keys").write_text(text)
        with pytest.raises(TacitError, match="line 1: expected two different nodes from 0 to 7"):
            key_edges(str(tmp_path / "keys"), ring, 0)
    with pytest.raises(TacitError, match="must be complete, regular, graph or a file"):
        key_edges("complet", ring, 1)
    with pytest.raises(TacitError, match="must be below the number of nodes 8, got 8"):
        key_edges(None, ring, 8)


def test_python_arguments():
    run = tacit.train(nodes=6, rounds=2, epsilon=2.0, colluders=1, ratio=1.0, keys="graph")
    target = run.config["privacy"]
    assert (target["noise"], target["colluders"], target["ratio"], target["keys"]) == ("paired", 1, 1.0, "graph")
    assert run.algorithm.pairs.ratio == pytest.approx(1.0, rel=1e-4)
    assert len(run.algorithm.pairs.edges) < 15
    with pytest.raises(TacitError, match="ratio has an effect only with paired noise: set colluders"):
        tacit.train(nodes=4, rounds=1, epsilon=2.0, ratio=1.0)
