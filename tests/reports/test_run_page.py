"""Texts, tables and figures of the page of a run, without a browser."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.reports import ReportPage, RunRecord, render_run_page, write_run_page
from tacit.reports.graph_layout import MAX_NODES, graph_layout
from tacit.reports.run_page import different_settings, node_summary, node_table
from tacit.runs import Config, from_config
from tests.runs.cases import interrupt_after, small


def without_verification(html):
    """The page without the word in its header and without the section."""
    head, tail = html.split('<section class="card" id="verification">')
    return re.sub(r'href="#verification">(not )?verified<', "", head + tail.split("</section>", 1)[1])


@pytest.fixture(scope="session")
def changing(finished):
    return RunRecord.read(finished["changing"])


def test_every_run_has_a_report(finished):
    for folder in finished.values():
        html = (folder / "report.html").read_text()
        assert 'id="privacy"' in html
        assert 'src="http' not in html


def test_report_of_a_moved_run_is_verified_and_shows_the_same(finished, tmp_path):
    moved = shutil.copytree(finished["changing"], tmp_path / "changing")
    before, after = (moved / "report.html").read_text(), write_run_page([moved], moved / "report.html").read_text()
    assert without_verification(after) == without_verification(before)
    assert f"<dt>Verified</dt><dd>{datetime.now(UTC):%Y-%m-%d} (UTC)." in after
    assert "<dt>Not verified</dt><dd>Written by the run at its end." in before


def test_report_without_models_and_checkpoint_is_refused(finished, tmp_path):
    copy = shutil.copytree(finished["changing"], tmp_path / "changing")
    (copy / "models.safetensors").unlink()
    (copy / "checkpoint.safetensors").unlink()
    with pytest.raises(TacitError, match=r"checkpoint.safetensors is missing\n  models.safetensors is missing"):
        write_run_page([copy], copy / "report.html")


def test_page_shows_start_end_software_and_extensions(finished, tmp_path):
    folder = tmp_path / "run"
    small(out=folder, observers=[ReportPage()]).go()
    small(out=folder, resume=True, extend=3, observers=[ReportPage()]).go()
    html = write_run_page([folder], tmp_path / "page.html").read_text()
    for text in ("Started 2", "resumed 1 time.", "Tacit 0.", "By 3 rounds after round 12", "(simulated)"):
        assert text in html, text
    both = write_run_page([folder, finished["plain"]], tmp_path / "both.html").read_text()
    assert both.count("<dt>Verified</dt>") == 2


def test_the_recipe_of_a_run_is_named(tmp_path):
    table = {"algorithm": "auto", "rounds": 1, "graph": {"nodes": 4}, "privacy": {"epsilon": 3.0, "delta": 1e-3}}
    from_config(Config.parse(table), out=tmp_path / "run", observers=[ReportPage()]).go()
    html = (tmp_path / "run/report.html").read_text()
    assert "vectors-2 (softmax regression on records of unit norm" in html


def test_numbers_of_the_nodes_add_up_to_those_of_the_run(changing):
    assert [row["node"] for row in changing.nodes] == list(range(6))
    assert sum(row["messages"] for row in changing.nodes) == changing.result["messages"]
    assert sum(row["bytes"] for row in changing.nodes) == changing.result["bytes"]
    assert max(row["guaranteed"] for row in changing.nodes) == changing.privacy.guaranteed
    assert all(0 <= row["accuracy"] <= 1 for row in changing.nodes)


def test_of_many_nodes_the_worst_are_listed():
    rows = [{"node": i, "guaranteed": i / 1000, "accuracy": None} for i in range(1000)]
    assert [row["node"] for row in node_table(rows)] == list(range(999, 949, -1))
    assert node_summary(rows)["guaranteed"] == (0.0, 0.4995, 0.999)
    assert node_summary(rows)["accuracy"] is None


def test_large_graph_has_numbers_but_no_picture(changing):
    graph = graph_layout(graphs.build("ring", {"nodes": MAX_NODES + 1}))
    assert (graph["positions"], graph["rounds"], graph["sends_to"]) == ([], [], [2, 2])
    assert "too large for a readable picture" in render_run_page([replace(changing, graph=graph)])


@pytest.mark.parametrize("name", ["star", "grid", "erdos-renyi", "one-peer-exponential", "complete"])
def test_positions_are_distinct_and_inside_the_picture(name):
    layout = graph_layout(graphs.build(name, {"nodes": 12}))
    positions = np.array(layout["positions"])
    assert positions.shape == (layout["nodes"], 2)
    assert abs(positions).max() <= 1.01
    assert len(np.unique(positions, axis=0)) == len(positions)


def test_charts_of_cost_and_optional_metrics_appear_only_if_measured(changing):
    clock = [{**row, "cost_seconds": 1.4 * row["round"], "stationarity": 0.1} for row in changing.evaluations]
    timed = replace(changing, evaluations=clock)
    assert 'id="cost"' not in render_run_page([changing, changing])
    assert 'id="stationarity"' not in render_run_page([changing, changing])
    assert 'id="cost"' in render_run_page([timed, changing])
    assert 'id="stationarity"' in render_run_page([timed, changing])
    assert 'id="cost"' not in render_run_page([timed])


def test_settings_that_differ_are_listed(finished):
    differing = different_settings([RunRecord.read(finished[name]) for name in ("changing", "plain")])
    assert differing["algorithm.name"] == ["dyn-d2p", "sgp"]
    assert differing["algorithm.noise_multiplier"] == ["2.0", "not set"]
    assert "rounds" not in differing


def test_runs_with_the_same_name_are_named_by_their_folders(finished, tmp_path):
    copy = shutil.copytree(finished["changing"], tmp_path / "changing")
    html = write_run_page([finished["changing"], copy], tmp_path / "both.html").read_text()
    assert str(copy) in html


def test_folders_that_are_not_finished_runs_are_refused(finished, tmp_path):
    with pytest.raises(TacitError, match="is not a run folder"):
        RunRecord.read(tmp_path)
    broken = shutil.copytree(finished["changing"], tmp_path / "broken")
    (broken / "result.json").write_text("{")
    with pytest.raises(TacitError, match="cannot be read"):
        RunRecord.read(broken)
    (broken / "result.json").write_text(json.dumps({"rounds": 3}))
    with pytest.raises(TacitError, match="another version"):
        RunRecord.read(broken)
    (broken / "result.json").unlink()
    with pytest.raises(TacitError, match=r"has not ended.*--resume"):
        RunRecord.read(broken)


def test_traffic_of_the_nodes_survives_an_interruption(tmp_path):
    whole = small(out=tmp_path / "whole", observers=[ReportPage()]).go()
    small(out=tmp_path / "broken", observers=[interrupt_after(7), ReportPage()]).go()
    assert "not complete: stopped by hand after 7 of 12 rounds" in (tmp_path / "broken/report.html").read_text()
    small(out=tmp_path / "broken", resume=True, observers=[ReportPage()]).go()
    assert (tmp_path / "broken/nodes.csv").read_bytes() == (whole.out / "nodes.csv").read_bytes()


def test_failed_run_still_has_a_report(tmp_path):
    run = small(algorithm={"name": "sgp", "lr": 3e38}, out=tmp_path / "run", observers=[ReportPage()])
    with pytest.raises(TacitError, match="not finite"):
        run.go()
    assert "This run is not complete: node " in (tmp_path / "run/report.html").read_text()
