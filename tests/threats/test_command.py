"""`tacit threats`."""

import json

import pytest

from tests.cli.conftest import setting

QUICK = setting("rounds=9", "graph.nodes=8", "algorithm=const-d2p", "batch.size=16")


def test_a_line_for_each_adversary(tacit):
    ended = tacit("threats", *QUICK, "--colluding", "0,3")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].split("  ")[0] == "adversary"
    names = ["an eavesdropper", "any one node", "who holds the mean", "who holds all", "nodes 0, 3 together"]
    assert [line.startswith(name) for line, name in zip(lines[1:6], names, strict=True)] == [True] * 5
    assert "δ = 0.0001, for each record" in lines[6]
    assert "add-remove" in lines[6]
    assert "counted among the colluding" in lines[7]


def test_json_has_the_pairs(tacit):
    found = json.loads(tacit("threats", *QUICK, "--json").out)
    plain = found["against"][0]["epsilon"]
    assert [row[i] for i, row in enumerate(found["pairs"])] == [None] * 8
    assert min(cell for row in found["pairs"] for cell in row if cell) < 0.95 * plain
    assert {each["unit"] for each in found["against"]} == {"record"}
    assert all(each["epsilon"] <= plain for each in found["against"])


def test_a_method_of_which_nothing_is_proven_says_so(tacit):
    ended = tacit("threats", *setting("algorithm=porter", "graph=ring", "graph.nodes=4", "rounds=3"))
    assert ended.out.count("that mixing hides anything is not proven for PORTER-DP") == 3
    assert "colluding" not in ended.out


@pytest.mark.parametrize(
    ("listed", "sentence"), [("0,9", "there is no node 9"), ("a", "node numbers with commas"), ("", "node numbers")]
)
def test_wrong_nodes(tacit, listed, sentence):
    ended = tacit("threats", *QUICK, "--colluding", listed)
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.out == ""
