"""`tacit learn-graph`: from files with signals to graphs, results and a report."""

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from tacit.graph_learning import synthetic
from tacit.privacy import Ledger

DATA = synthetic.rbf(vertices=8, clients=3, signals=40, seed=0)
NAMES = [f"region {i}" for i in range(8)]


@pytest.fixture
def files(tmp_path):
    """Two clients in .csv files, one of them with the vertices' names, and one in an .npz file."""
    np.savetxt(tmp_path / "a.csv", DATA.signals[0], delimiter=",", header=",".join(NAMES), comments="")
    np.savetxt(tmp_path / "b.csv", DATA.signals[1], delimiter=",")
    np.savez(tmp_path / "c.npz", signals=DATA.signals[2])
    return ["a.csv", "b.csv", "c.npz"]


def test_writes_graphs_result_ledger_and_report(tacit, files, tmp_path):
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
    for words in ("Guaranteed ε", "region 3", "edge of the consensus", 'id="privacy"', "Not covered"):
        assert words in page
    assert "http://" not in page.split("<script>")[0]


@pytest.mark.parametrize("command", ["verify", "report"])
def test_commands_for_training_runs_refuse_the_folder_with_the_reason(tacit, files, command):
    assert tacit("learn-graph", *files, "--epsilon", "2", "--clip", "20", "--out", "out").code == 0
    ended = tacit(command, "out")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err == "error: out contains learned graphs: only the folders of training runs can be verified\n"


def test_output_without_privacy(tacit, files):
    ended = tacit("learn-graph", *files, "--method", "igl")
    assert ended.code == 0
    assert ended.out.startswith("IGL, 3 clients, 8 vertices, 1 round: converged, no consensus")
    assert "No privacy is guaranteed: no message leaves a client, but its graph is computed" in ended.out
    assert "Results: graphs/a. Report: graphs/a/report.html" in ended.out


def test_example_without_files(tacit):
    ended = tacit("learn-graph", "--epsilon", "8", "--seed", "1")
    assert ended.code == 0
    assert "synthetic signals" in ended.err
    assert "Guaranteed (simulated) ε = 8, δ = 1e-05 per signal" in ended.out
    assert "SIMULATION: the noise is derived from seed 1" in ended.out


def test_noise_is_secret_by_default(tacit, files):
    """Two runs differ, and neither is a simulation; runs with the same seed are equal."""
    options = ("--epsilon", "2", "--clip", "20", "--method", "igl")
    ended = [tacit("learn-graph", *files, *options, "--out", out) for out in ("one", "two")]
    seeded = [tacit("learn-graph", *files, *options, "--seed", 0, "--out", out) for out in ("three", "four")]
    for each in ended:
        assert "Guaranteed ε = 2, δ" in each.out
        assert "imulat" not in each.out + each.err
    for each in seeded:
        assert "Guaranteed (simulated) ε = 2, δ" in each.out
    graphs = [Path(out, "a.csv").read_text() for out in ("one", "two", "three", "four")]
    assert len(set(graphs)) == 3
    assert graphs[2] == graphs[3]


def test_without_noise_a_seed_is_not_mentioned(tacit, files):
    ended = tacit("learn-graph", *files, "--seed", 0)
    assert "No privacy is guaranteed" in ended.out
    assert "imulat" not in ended.out


def test_release_in_rounds_prints_the_claim(tacit, files):
    shape = ("--beta", "0.1", "--rho", "0.1", "--lam", "0.01", "--clip", "20")
    options = ("--release", "rounds", "--rounds", "5", "--local-steps", "1", *shape)
    ended = tacit("learn-graph", *files, *options, "--epsilon", "2", "--out", "out")
    assert ended.code == 0
    assert "(the paper's formula claims " in ended.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,x\n", "a.csv, line 2, column 2: not a number"),
        ("1,2\n3\n", "a.csv, line 2: 1 values, but the first line has 2"),
        ("1,2\n,4\n", "Client 0: the value in row 1, column 0 (counted from 0) is missing or not finite"),
        ("", "a.csv is empty"),
        ("1,2,3\n4,5,7\n", "client 0 has 3, client 1 has 8"),
        ("p,q,r,s,t,u,v,w\n" + "1,2,3,4,5,6,7,8\n" * 2, "name different vertices"),
    ],
)
def test_bad_files_are_refused(tacit, files, tmp_path, text, message):
    """Exit code 2, one error message, no output folder."""
    (tmp_path / "a.csv").write_text(text)
    np.savetxt(tmp_path / "b.csv", DATA.signals[1], delimiter=",", header=",".join(NAMES), comments="")
    ended = tacit("learn-graph", *files, "--out", "out")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()


def test_bad_options_are_refused(tacit, files, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    (tmp_path / "broken.npz").write_text("no archive")
    np.savez(tmp_path / "objects.npz", signals=np.array([["a", None]], dtype=object))
    for args, message in [
        ((*files, "--epsilon", "1", "--statistic", "differences"), "Noise on squared differences needs a clip"),
        ((*files, "--epsilon", "1", "--statistic", "gram", "--clip", "20"), "clip = 20 has no effect"),
        (("none.csv",), "File not found: none.csv"),
        (("broken.npz",), "broken.npz cannot be read as an .npz archive"),
        (("objects.npz",), "objects.npz cannot be read as an .npz archive of numeric arrays"),
        ((*files, "--out", "full"), "full is not empty"),
        (("a.csv",), "PPGL needs at least 2 clients, got 1"),
        ((*files, "--rounds", "0"), "rounds must be at least 1"),
    ]:
        ended = tacit("learn-graph", *args)
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err
    assert not (tmp_path / "graphs").exists() or not any((tmp_path / "graphs").iterdir())


def test_large_graphs_are_not_drawn(tacit, tmp_path):
    data = synthetic.barabasi_albert(vertices=310, clients=2, signals=30, seed=0)
    np.savez(tmp_path / "all.npz", one=data.signals[0], two=data.signals[1])
    ended = tacit("learn-graph", "all.npz", "--method", "fedavg", "--out", "out")
    assert ended.code == 0
    assert "too large for readable pictures" in (tmp_path / "out/report.html").read_text()
    assert (tmp_path / "out/all-two.graphml").is_file()
