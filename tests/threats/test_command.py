"""`tacit threats`."""

import json

import pytest

from tests.cli.conftest import setting

QUICK = setting("rounds=9", "graph.nodes=8", "algorithm=const-d2p", "batch.size=16")


def test_one_line_per_adversary(tacit):
    ended = tacit("threats", *QUICK, "--colluding", "0,3")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].split("  ")[0] == "adversary"
    holders = ["a holder of the mean", "a holder of all", "a reader of the published accuracies"]
    names = ["an eavesdropper", "any one node", *holders, "nodes 0 and 3 colluding"]
    assert [line.startswith(name) for line, name in zip(lines[1:7], names, strict=True)] == [True] * 6
    assert "δ = 0.0001, per record (add-remove)" in lines[7]
    assert "Count a node that omits or reveals its noise as colluding." in lines[8]


def test_json_contains_the_pairs(tacit):
    found = json.loads(tacit("threats", *QUICK, "--json").out)
    headline = found["bounds"][0]["epsilon"]
    assert [row[i] for i, row in enumerate(found["pairs"])] == [None] * 8
    assert min(cell for row in found["pairs"] for cell in row if cell) < 0.95 * headline
    assert {bound["unit"] for bound in found["bounds"]} == {"record"}
    assert all(bound["epsilon"] <= headline for bound in found["bounds"])


def test_an_algorithm_without_a_mixing_bound_is_named(tacit):
    ended = tacit("threats", *setting("algorithm=porter", "graph=ring", "graph.nodes=4", "rounds=3"))
    assert ended.out.count("no mixing bound is known for PORTER-DP; the eavesdropper's bound applies") == 3
    assert "colluding" not in ended.out


@pytest.mark.parametrize(
    ("text", "message"),
    [("0,9", "Node 9 does not exist"), ("a", "node numbers separated by commas"), ("", "node numbers")],
)
def test_invalid_node_numbers_are_refused(tacit, text, message):
    ended = tacit("threats", *QUICK, "--colluding", text)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""
