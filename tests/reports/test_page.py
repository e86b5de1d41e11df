"""The page's words, tables and figures, without a browser."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.privacy.statement import Privacy
from tacit.reports import Record, ReportPage, page, write_page
from tacit.reports.drawing import MOST_NODES, drawing
from tacit.reports.page import differences, node_summary, node_table
from tacit.reports.words import detection, guess, not_covered, statement
from tests.runs.cases import interrupt_after, small


@pytest.fixture(scope="session")
def changing(finished):
    return Record.read(finished["changing"])


def with_privacy(record, **privacy):
    return Record(**{**vars(record), "result": {**record.result, "privacy": Privacy(**privacy)}})


def said(record):
    return " ".join(answer for _, answer in statement(record))


def test_each_run_leaves_its_page(finished):
    for folder in finished.values():
        assert "Privacy, in words" in (folder / "report.html").read_text()


def test_the_page_is_made_again_from_the_folder_alone(finished, tmp_path):
    moved = shutil.copytree(finished["changing"], tmp_path / "changing")
    before = (moved / "report.html").read_text()
    (moved / "models.safetensors").unlink()
    (moved / "checkpoint.safetensors").unlink()
    (moved / "report.html").unlink()
    assert write_page([moved], moved / "report.html").read_text() == before


def test_nodes_add_up_to_the_run(changing):
    assert [row["node"] for row in changing.nodes] == list(range(6))
    assert sum(row["messages"] for row in changing.nodes) == changing.result["messages"]
    assert sum(row["bytes"] for row in changing.nodes) == changing.result["bytes"]
    assert max(row["guaranteed"] for row in changing.nodes) == changing.privacy.guaranteed
    assert all(0 <= row["accuracy"] <= 1 for row in changing.nodes)


def test_a_run_without_noise_is_said_to_have_no_privacy(finished):
    plain = Record.read(finished["plain"])
    assert "No privacy is guaranteed: values left the nodes without noise." in said(plain)
    assert all(row["guaranteed"] is None for row in plain.nodes)
    assert "with no noise" in said(plain)


def test_claim_and_guarantee_are_told_apart(changing):
    low = said(with_privacy(changing, guaranteed=3.0, claimed=1.0, delta=1e-4))
    assert "claims ε = 1; really guaranteed is ε = 3" in low
    assert "cautious" in said(with_privacy(changing, guaranteed=1.0, claimed=3.0, delta=1e-4))
    assert "claims no ε" in said(with_privacy(changing, guaranteed=1.0, claimed=None, delta=1e-4))
    assert "nothing here supports it" in said(
        with_privacy(changing, guaranteed=None, claimed=1.0, delta=1e-4, reason="a reason")
    )


def test_what_is_not_covered_names_the_seed(changing):
    assert any("seed 0" in line for line in not_covered(changing))


def test_the_bounds_hold_for_the_gaussian_mechanism():
    """Against the exact trade-off of a Gaussian release with μ = 1: power Φ(Φ⁻¹(α) + μ) and guess Φ(μ / 2)."""
    from scipy.stats import norm

    from tacit.privacy.gdp import mu_to_epsilon

    for delta in (1e-2, 1e-5):
        epsilon = mu_to_epsilon(1.0, delta)
        assert norm.cdf(0.5) <= guess(epsilon, delta) < 1
        for alarms in np.linspace(0.001, 0.999, 50):
            assert norm.cdf(norm.ppf(alarms) + 1.0) <= detection(epsilon, delta, alarms) + 1e-12
    assert guess(1000.0, 1e-5) == detection(1000.0, 1e-5) == 1.0
    assert math.isclose(detection(0.0, 0.0), 0.01)


def test_of_many_nodes_the_worst_are_shown():
    rows = [{"node": i, "guaranteed": i / 1000, "accuracy": None} for i in range(1000)]
    shown = node_table(rows)
    assert [row["node"] for row in shown] == list(range(999, 949, -1))
    assert node_summary(rows)["guaranteed"] == (0.0, 0.4995, 0.999)
    assert node_summary(rows)["accuracy"] is None


def test_a_large_graph_is_told_and_not_drawn(changing):
    graph = drawing(graphs.build("ring", {"nodes": MOST_NODES + 1}))
    assert (graph["positions"], graph["rounds"], graph["sends_to"]) == ([], [], [2, 2])
    assert "too large" in page([Record(**{**vars(changing), "graph": graph})])


@pytest.mark.parametrize("name", ["star", "grid", "erdos-renyi", "one-peer-exponential", "complete"])
def test_graphs_are_drawn_in_bounds(name):
    drawn = drawing(graphs.build(name, {"nodes": 12}))
    places = np.array(drawn["positions"])
    assert places.shape == (drawn["nodes"], 2)
    assert abs(places).max() <= 1.01
    assert len(np.unique(places, axis=0)) == len(places)


def test_accuracy_by_cost_is_shown_where_anything_costs(changing):
    clock = [{**row, "cost_seconds": 1.4 * row["round"], "stationarity": 0.1} for row in changing.history]
    timed = replace(changing, history=clock)
    assert 'id="cost"' not in page([changing, changing])
    assert 'id="stationarity"' not in page([changing, changing])
    assert 'id="cost"' in page([timed, changing])
    assert 'id="stationarity"' in page([timed, changing])
    assert 'id="cost"' not in page([timed])


def test_settings_that_differ(finished):
    differing = differences([Record.read(finished[name]) for name in ("changing", "plain")])
    assert differing["algorithm.name"] == ["dyn-d2p", "sgp"]
    assert differing["algorithm.noise_multiplier"] == ["2.0", "–"]
    assert "rounds" not in differing


def test_runs_of_one_name_are_told_apart(finished, tmp_path):
    copy = shutil.copytree(finished["changing"], tmp_path / "changing")
    html = write_page([finished["changing"], copy], tmp_path / "both.html").read_text()
    assert str(copy) in html


def test_what_is_no_run_is_refused(finished, tmp_path):
    with pytest.raises(TacitError, match="is not the folder of a run"):
        Record.read(tmp_path)
    broken = shutil.copytree(finished["changing"], tmp_path / "broken")
    (broken / "result.json").write_text("{")
    with pytest.raises(TacitError, match="cannot be read"):
        Record.read(broken)
    (broken / "result.json").write_text(json.dumps({"rounds": 3}))
    with pytest.raises(TacitError, match="another version"):
        Record.read(broken)
    (broken / "result.json").unlink()
    with pytest.raises(TacitError, match=r"has not ended.*--resume"):
        Record.read(broken)


def test_what_each_node_sent_survives_a_break(tmp_path):
    whole = small(out=tmp_path / "whole", observers=[ReportPage()]).go()
    small(out=tmp_path / "broken", observers=[interrupt_after(7), ReportPage()]).go()
    assert "not complete: stopped by hand after 7 of 12 rounds" in (tmp_path / "broken/report.html").read_text()
    small(out=tmp_path / "broken", resume=True, observers=[ReportPage()]).go()
    assert (tmp_path / "broken/nodes.csv").read_bytes() == (whole.out / "nodes.csv").read_bytes()


def test_a_run_that_fails_still_leaves_its_page(tmp_path):
    run = small(algorithm={"name": "sgp", "lr": 3e38}, out=tmp_path / "run", observers=[ReportPage()])
    with pytest.raises(TacitError, match="not finite"):
        run.go()
    assert "This run is not complete: node " in (tmp_path / "run/report.html").read_text()
