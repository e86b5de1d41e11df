"""`tacit sweep`: output, exit codes, Ctrl-C, parallel processes, the page."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.reports import render_sweep_page, write_sweep_page
from tacit.runs import Config
from tacit.sweeps import sweep
from tests.helpers import accept_ctrl_c
from tests.sweeps.cases import COMMAND, OPTIONS, SMALL

CELLS = Path("runs/sweep/cells")


def test_the_command_prints_table_and_statements_and_writes_the_page(tacit):
    ended = tacit(*COMMAND, "--workers", 1)
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert lines[0].split()[:3] == ["rank", "lr", "clip"]
    assert lines[1].startswith("1 (best)")
    assert lines[5].startswith("trivial predictor")
    assert lines[6].startswith("Best: lr = ")
    assert lines[7].startswith("Settings were judged on 180 of the 360 test records")
    assert "The 4 runs of the sweep were not charged: together they cost ε = " in lines[8]
    assert lines[9] == "Results: runs/sweep. Best config: runs/sweep/best.toml. Report: runs/sweep/sweep.html"
    page = Path("runs/sweep/sweep.html").read_text()
    assert "the tuning is not charged" in page
    assert lines[8] in page
    assert lines[7] in page
    again = json.loads(tacit(*COMMAND, "--workers", 1, "--charge", "--json").out)
    assert again["privacy"]["charged"] is True
    assert again["privacy"]["guaranteed"] <= 3.0 < again["privacy"]["chosen"] * 4
    assert again["judge"] == "held-out"
    best = Config.load(Path("runs/sweep/best.toml"))
    assert best.algorithm.parameters["lr"] == again["best"]["settings"]["lr"]
    assert "the tuning is charged" in Path("runs/sweep/sweep.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grid", "lrr=1"], 'unknown setting to sweep "lrr"; did you mean "lr"?'),
        ([], "A sweep needs one or more settings to vary"),
        (["--grid", "lr=1", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["--grid", "lr=1", "--judge", "tset"], 'unknown way to judge "tset"; did you mean "test"?'),
        (["--grid", "lr=-1"], "lr must be positive"),
        (["nowhere.toml", "--grid", "lr=1"], "cannot read the config nowhere.toml"),
    ],
)
def test_wrong_input_ends_with_code_2_and_writes_nothing(tacit, options, message):
    ended = tacit("sweep", *options, *OPTIONS)
    assert (ended.code, ended.out) == (2, "")
    assert message in " ".join(ended.err.split())
    assert "Traceback" not in ended.err
    assert not Path("runs").exists()


def test_ctrl_c_in_one_process_keeps_finished_runs(tacit, monkeypatch):
    from tacit.sweeps import cell_runs

    real, calls = cell_runs.utility_on, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(cell_runs, "utility_on", interrupted)
    ended = tacit(*COMMAND, "--workers", 1)
    assert (ended.code, ended.out) == (130, "")
    assert "Run the same command again to resume" in ended.err
    assert len(list(CELLS.iterdir())) == 1
    monkeypatch.setattr(cell_runs, "utility_on", real)
    assert "1 of 4 runs are already finished" in tacit(*COMMAND, "--workers", 1).err


def test_parallel_processes_that_were_interrupted_give_the_same_result(tacit):
    """After Ctrl-C in two processes, the rest in one process gives the numbers of one process."""
    long = [*COMMAND, "--set", "rounds=40", "--json"]
    command = [sys.executable, "-m", "tacit", *long, "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command, **pipes, preexec_fn=accept_ctrl_c, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(CELLS.glob("*.json")) and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)  # a terminal sends it to the workers too
    out, err = running.communicate(timeout=30)
    done = len(list(CELLS.glob("*.json")))
    assert (running.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert 1 <= done <= 3
    resumed = tacit(*long, "--workers", 1)
    assert f"{done} of 4 runs are already finished" in resumed.err
    whole = tacit(*long, "--workers", 1, "--out", "whole")
    assert json.loads(whole.out) == {**json.loads(resumed.out), "out": "whole"}


def test_charts_have_the_scale_of_their_values_and_mark_the_best_setting():
    found = sweep(SMALL, {"graph": ["ring", "complete"], "lr": [0.01, 0.5]}, seeds=2)
    page = render_sweep_page(found)
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    graph, lr = figures["chart-0"], figures["chart-1"]
    assert graph["layout"]["xaxis"]["type"] == "category"
    assert lr["layout"]["xaxis"]["type"] == "log"
    line, points = lr["data"]
    assert line["x"] == [0.01, 0.5]
    assert points["marker"]["symbol"] == ["star", "circle", "circle", "circle"]
    assert points["y"][0] == pytest.approx(100 * found.rows[0].mean) == max(points["y"])
    assert points["error_y"]["array"][0] == pytest.approx(100 * found.rows[0].deviation)
    with pytest.raises(TacitError, match="run it with out="):
        write_sweep_page(found)


def test_the_page_in_a_browser(visit, tmp_path):
    found = sweep(SMALL, {"lr": [0.05, 0.5]}, out=tmp_path)
    page = visit(write_sweep_page(found), width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#results tbody tr").count() == 3
    assert 'name = "dyn-d2p"' in page.locator("#best").inner_text()
