"""`tacit learn-graph`: files in, graphs, numbers and a page out."""

import json

import networkx as nx
import numpy as np
import pytest

from tacit.graph_learning import synthetic
from tacit.privacy.ledger import Ledger

DATA = synthetic.rbf(vertices=8, clients=3, signals=40, seed=0)
NAMES = [f"region {i}" for i in range(8)]


@pytest.fixture
def files(tmp_path):
    """Two clients in csv files, one of them with the vertices' names, and one in an npz."""
    np.savetxt(tmp_path / "a.csv", DATA.signals[0], delimiter=",", header=",".join(NAMES), comments="")
    np.savetxt(tmp_path / "b.csv", DATA.signals[1], delimiter=",")
    np.savez(tmp_path / "c.npz", signals=DATA.signals[2])
    return ["a.csv", "b.csv", "c.npz"]


def test_graphs_numbers_and_a_page(tacit, files, tmp_path):
    ended = tacit("learn-graph", *files, "--epsilon", "2", "--clip", "20", "--out", "out", "--json")
    assert ended.code == 0
    result = json.loads(ended.out)
    assert result["privacy"]["guaranteed"] <= 2
    assert (result["clients"], result["vertices"], result["converged"]) == (3, 8, True)
    assert set(result["parameters"]) == {"beta", "rho", "lam", "zeta", "gamma_epsilon"}
    out = tmp_path / "out"
    for name in ("consensus", "a", "b", "c"):
        graph = nx.read_graphml(out / f"{name}.graphml")
        assert sorted(graph) == NAMES
        lines = (out / f"{name}.csv").read_text().splitlines()
        assert lines[0] == "source,target,weight"
        assert len(lines) == 1 + graph.number_of_edges()
    assert len(Ledger(out / "ledger.sqlite")) == 1
    assert len((out / "history.csv").read_text().splitlines()) == 1 + result["rounds"]
    page = (out / "report.html").read_text()
    for words in ("Guaranteed ε", "region 3", "in the consensus", "Privacy, in words", "What is not covered?"):
        assert words in page
    assert "http://" not in page.split("<script>")[0]


def test_words_for_people(tacit, files):
    ended = tacit("learn-graph", *files, "--method", "igl")
    assert ended.code == 0
    assert ended.out.startswith("IGL with beta = ")
    assert "No privacy is guaranteed: no message leaves a client, but its graph is made without noise" in ended.out
    assert "graphs/a" in ended.out


def test_without_files_there_is_an_example(tacit):
    ended = tacit("learn-graph", "--epsilon", "8", "--seed", "1")
    assert ended.code == 0
    assert "made-up signals" in ended.err
    assert "this is a simulation" in ended.out


def test_rounds(tacit, files):
    shape = ("--beta", "0.1", "--rho", "0.1", "--lam", "0.01", "--clip", "20")
    options = ("--release", "rounds", "--rounds", "5", "--local-steps", "1", *shape)
    ended = tacit("learn-graph", *files, *options, "--epsilon", "2", "--out", "out")
    assert ended.code == 0
    assert "(claimed by the paper's formula: ε = " in ended.out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2\n3,x\n", "a.csv, line 2, column 2: not a number"),
        ("1,2\n3\n", "a.csv, line 2: 1 values, but the first line has 2"),
        ("1,2\n,4\n", "client 0 hold a value that is not finite, in row 1, column 0"),
        ("", "a.csv is empty"),
        ("1,2,3\n4,5,7\n", "client 0 has signals on 3 vertices and client 1 on 8"),
        ("p,q,r,s,t,u,v,w\n" + "1,2,3,4,5,6,7,8\n" * 2, "name different vertices"),
    ],
)
def test_bad_files(tacit, files, tmp_path, text, sentence):
    """One sentence, exit code 2, and nothing half-written."""
    (tmp_path / "a.csv").write_text(text)
    np.savetxt(tmp_path / "b.csv", DATA.signals[1], delimiter=",", header=",".join(NAMES), comments="")
    ended = tacit("learn-graph", *files, "--out", "out")
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()


def test_bad_options(tacit, files, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    (tmp_path / "broken.npz").write_text("no archive")
    for args, sentence in [
        ((*files, "--epsilon", "1"), "noise protects only what is clipped"),
        (("none.csv",), "File not found: none.csv"),
        (("broken.npz",), "broken.npz cannot be read as an .npz archive"),
        ((*files, "--out", "full"), "full holds something already"),
        (("a.csv",), "one client has nobody to agree with"),
        ((*files, "--rounds", "0"), "rounds must be at least 1"),
    ]:
        ended = tacit("learn-graph", *args)
        assert (ended.code, ended.out) == (2, "")
        assert sentence in ended.err
    assert not (tmp_path / "graphs").exists() or not any((tmp_path / "graphs").iterdir())


def test_a_graph_too_large_to_draw(tacit, tmp_path):
    data = synthetic.barabasi_albert(vertices=310, clients=2, signals=30, seed=0)
    np.savez(tmp_path / "all.npz", one=data.signals[0], two=data.signals[1])
    ended = tacit("learn-graph", "all.npz", "--method", "fedavg", "--out", "out")
    assert ended.code == 0
    assert "too large to be read as pictures" in (tmp_path / "out/report.html").read_text()
    assert (tmp_path / "out/all-two.graphml").is_file()
