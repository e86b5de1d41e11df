"""The command `tacit reproduce`: from a TOML file to a table and a page."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import tomli_w

from tacit.reproduce import read_experiment
from tacit.reproduce.cells import expand_cells
from tests.helpers import accept_ctrl_c

QUICK = ("reproduce", "tiny/one", "--quick", "--jobs", "1")
FOLDER = Path("runs/reproduce/tiny/one-quick")
CELLS = FOLDER.parent / "cells"


def test_table_has_published_claimed_and_guaranteed_results(tacit, tiny):
    ended = tacit(*QUICK)
    assert ended.code == 0, ended.err
    head, free, const, dyn = ended.out.splitlines()[1:5]
    assert head.split("  ")[0].strip() == "method"
    assert "at claimed ε" in head
    assert "its guaranteed ε" in head
    assert free.split()[:3] == ["Free", "–", "90.0"]
    assert const.split()[:3] == ["Const", "3", "60.5"]
    assert dyn.split()[:3] == ["Dyn", "3", "–"]
    assert ended.out.splitlines()[-1].endswith("one-quick/report.html")
    assert {path.name for path in FOLDER.iterdir()} == {
        "table.md",
        "table.csv",
        "results.json",
        "report.html",
        "plotly.min.js",
    }
    assert "| Const | 3 | 60.5 |" in (FOLDER / "table.md").read_text()
    rows = list(csv.DictReader((FOLDER / "table.csv").read_text().splitlines()))
    assert [row["method"] for row in rows] == ["Free", "Const", "Dyn"]
    assert 2.9 < float(rows[1]["guaranteed_guaranteed"]) <= 3
    assert float(rows[1]["paper_guaranteed"]) != float(rows[1]["guaranteed_guaranteed"])
    assert rows[0]["plain_guaranteed"] == ""
    assert 0 < float(rows[0]["plain_accuracy"]) <= 100


def test_page_is_self_contained(tacit, tiny):
    tacit(*QUICK)
    page = (FOLDER / "report.html").read_text()
    assert 'id="chart-2"' in page  # published, claimed, guaranteed
    assert "Dyn" in page
    assert "This is the quick version" in page
    assert 'src="http' not in page


def test_json_output_is_one_object(tacit, tiny):
    ended = tacit(*QUICK, "--json")
    result = json.loads(ended.out)
    assert [row["labels"] for row in result["rows"]] == [
        {"method": "Free"},
        {"method": "Const", "epsilon": "3"},
        {"method": "Dyn", "epsilon": "3"},
    ]
    assert result["rows"][1]["published"] == 60.5
    assert result["rows"][1]["paper"]["runs"] == 1
    assert result["rows"][1]["paper"]["curve"][-1]["round"] == 2
    assert json.loads((FOLDER / "results.json").read_text()) == result


def test_finished_cells_are_not_repeated(tacit, tiny, monkeypatch):
    first = tacit(*QUICK, "--json")
    cells = list(CELLS.iterdir())
    assert len(cells) == 5
    monkeypatch.setattr("tacit.reproduce.cell_runs.from_config", None)  # any run would fail
    again = tacit(*QUICK, "--json")
    assert again.out == first.out
    assert "5 of 5 cells are already finished" in again.err


def test_changed_or_damaged_cells_are_run_again(tacit, tiny):
    tacit(*QUICK)
    next(CELLS.iterdir()).write_text('{"acc')
    assert "4 of 5 cells are already finished" in tacit(*QUICK).err
    tiny.write_text(tiny.read_text().replace('"const-d2p", lr = 0.5', '"const-d2p", lr = 0.4'))
    assert "3 of 5 cells are already finished" in tacit(*QUICK).err


def test_several_seeds_give_a_deviation(tacit, tiny):
    tiny.write_text(tiny.read_text().replace("seeds = [0]\n", "seeds = [3, 4]\n"))
    result = json.loads(tacit(*QUICK, "--json", "--out", "there").out)
    assert result["rows"][2]["guaranteed"]["deviation"]["accuracy"] > 0
    assert " ± " in Path("there/table.md").read_text()


def test_tuning_has_the_same_number_of_tries_for_every_method(tacit, tiny):
    ended = tacit("reproduce", "tiny/one", "--tune", "--jobs", "1", "--json")
    result = json.loads(ended.out)
    assert [line["method"] for line in result["tries"]] == ["Const", "Const", "Dyn", "Dyn"]
    assert [line["method"] for line in result["best"]] == ["Const", "Dyn"]
    best = max(result["tries"][:2], key=lambda line: line["accuracy"])
    assert result["best"][0] == best
    assert result["adjust"][0]["when"] == {"method": "Const", "epsilon": "3"}
    assert result["adjust"][1]["set"]["algorithm"].keys() == {"lr", "rho_c"}


def test_tuned_settings_can_be_pasted_into_the_experiment(tacit, tiny):
    tacit("reproduce", "tiny/one", "--tune", "--jobs", "1")
    tuned = tomllib.loads(Path("runs/reproduce/tiny/one-tune/tuned.toml").read_text())
    tiny.write_text(tomli_w.dumps(tomllib.loads(tiny.read_text()) | tuned))
    lr = tuned["adjust"][0]["set"]["algorithm"]["lr"]
    cells = expand_cells(read_experiment(tiny).quick_version())
    assert {cell.config.algorithm.parameters["lr"] for cell in cells if cell.labels["method"] == "Const"} == {lr}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("rounds = 2", "rouns = 2", 'unknown key of Free "rouns"; did you mean "rounds"?'),
        ('"dyn-d2p"', '"dyn-dp"', 'Dyn, 3, paper: unknown algorithm "dyn-dp"; did you mean "dyn-d2p"?'),
        ('series = "method"', 'series = "metod"', 'unknown axis "metod"; did you mean "method"?'),
        ('epsilon = ["3"] }\nbase', 'epsilon = ["4"] }\nbase', 'unknown value of axis epsilon "4"'),
        ('title = "Tiny"', "", "one.toml: title is missing"),
        ('title = "Tiny"', "title =", "one.toml is not valid TOML"),
        ('title = "Tiny"', 'title = "Tiny"\nlike = "two"', "two.toml: No such file"),
    ],
)
def test_wrong_experiment_is_refused_with_one_sentence(tacit, tiny, before, after, message):
    assert before in tiny.read_text()
    tiny.write_text(tiny.read_text().replace(before, after))
    ended = tacit(*QUICK)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not FOLDER.exists()


def test_unknown_name_and_wrong_jobs_are_refused(tacit, tiny):
    assert 'unknown experiment "tiny/won"; did you mean "tiny/one"?' in tacit("reproduce", "tiny/won").err
    assert "--jobs must be at least 1, got 0" in tacit("reproduce", "tiny/one", "--jobs", "0").err
    assert "Tiny" in tacit("list").out


def test_missing_experiments_folder_is_reported(tacit, monkeypatch, tmp_path):
    monkeypatch.setattr("tacit.reproduce.files.experiment_folders", lambda: [tmp_path / "nowhere"])
    ended = tacit("reproduce", "a/b")
    assert ended.code == 2
    assert "There are no experiments in" in ended.err
    assert "nowhere" in ended.err


def test_interrupted_parallel_run_continues(tacit, tiny):
    """After Ctrl-C the finished cells are saved, and the same command runs the rest."""
    tiny.write_text(tiny.read_text().replace("rounds = 2", "rounds = 40"))
    command = [
        str(Path(sys.executable).with_name("tacit")),
        "reproduce",
        "tiny/one",
        "--quick",
        "--jobs",
        "2",
        "--json",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command, **pipes, preexec_fn=accept_ctrl_c, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(CELLS.glob("*.json")) and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # a terminal sends it to the workers too
    out, err = running.communicate(timeout=30)
    done = len(list(CELLS.glob("*.json")))
    assert (running.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert 1 <= done < 5
    ended = tacit(*QUICK, "--json")
    assert f"{done} of 5 cells are already finished" in ended.err
    assert len(json.loads(ended.out)["rows"]) == 3
