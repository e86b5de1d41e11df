"""However a simulation ends, its ledger has every release, and its folder states no less than its files contain."""

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing

import pytest
import torch
from safetensors.torch import load_file

from tacit.privacy import read_ledger, release_table
from tacit.runs import Observer, ProgressBar, storage
from tests.fork_server import FORK_SERVER
from tests.runs.cases import AfterRound, assert_same, interrupt_after, interrupt_verb, lines, small

LONG = {"rounds": 4000, "evaluate_every": 7}


def one_by_one(monkeypatch):
    monkeypatch.setattr(release_table, "_BLOCK", 1)


def in_file(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as other:
        return other.execute("SELECT COUNT(*) FROM release").fetchone()[0]


class Printing(Observer):
    """Shows the models of every round."""

    def __init__(self, folder):
        self.folder, self.seen, self.written = folder, [], []

    def on_round(self, run):
        self.seen.append(run.models.clone())
        self.written.append(in_file(self.folder))


class Quiet(Observer):
    """Shows evaluations only; `on_evaluation` notes what is in the file."""

    def __init__(self, folder):
        self.folder, self.written = folder, []

    def on_evaluation(self, run, row):
        self.written.append(in_file(self.folder))


def test_the_file_has_every_release_of_a_round_before_an_observer_sees_the_round(tmp_path):
    """A process that is killed in the observer has shown these models."""
    printing = Printing(tmp_path / "run")
    small(out=tmp_path / "run", observers=[printing]).go()
    assert printing.written == list(range(1, 13))
    quiet, bar = Quiet(tmp_path / "quiet"), ProgressBar()
    small(out=tmp_path / "quiet", observers=[quiet, bar]).go()
    assert quiet.written == [0, 5, 10, 12]


def test_blocks_remain_blocks_if_nobody_sees_the_rounds(tmp_path):
    written = []

    class Counting(ProgressBar):
        def on_round(self, run):
            written.append(in_file(tmp_path / "run"))

    small(out=tmp_path / "run", observers=[Counting()]).go()
    assert written == [0] * 4 + [5] * 5 + [10, 10, 12]


def failure(run):
    raise ValueError("a bug in an observer")


@pytest.mark.parametrize("end", ["last round", "interrupt", "interrupt in a round", "budget"])
def test_a_run_states_the_same_as_with_single_releases(monkeypatch, end):
    def ended():
        privacy = {"delta": 1e-4} | ({"budget": 1.2} if end == "budget" else {})
        run = small(privacy=privacy, observers=[interrupt_after(4)] if end == "interrupt" else [])
        if end == "interrupt in a round":
            interrupt_verb(run, "mix", 6)
        return run.go()

    blocks = ended()
    one_by_one(monkeypatch)
    assert_same(blocks, ended())
    assert len(blocks.task.ledger) == blocks.t


def test_an_exception_leaves_all_releases_in_the_folder(tmp_path):
    run = small(out=tmp_path / "run", observers=[AfterRound(7, failure)])
    with pytest.raises(ValueError, match="a bug"):
        run.go()
    assert len(read_ledger(tmp_path / "run/ledger.sqlite")) == len(run.task.ledger) == 7
    assert run.privacy.per_node.tolist() == small(observers=[interrupt_after(7)]).go().privacy.per_node.tolist()


def test_a_release_outlives_the_round_that_fails():
    """What was released in a round that fails may have been seen: it is not lost with the round."""
    run = small()

    def fail(*values, **options):
        raise ValueError("the network is down")

    run.network._mix = fail
    with pytest.raises(ValueError, match="the network is down"):
        run.go()
    assert run.t == 0
    assert [(step, purpose) for step, purpose, *_ in lines(run)] == [(0, "gradient")]
    assert run.privacy.guaranteed > 0


def run_small(folder):
    small(**LONG, out=folder).go()


def test_a_killed_simulation_states_no_less_than_its_files_contain(tmp_path):
    random.seed(1)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        process = FORK_SERVER.Process(target=run_small, args=(folder,), daemon=True)
        process.start()
        deadline = time.monotonic() + 600  # only a process that hangs takes so long
        while not (folder / "model.pt").exists() and not (folder / "history.csv").exists():
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(random.random() * 0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        ledger, (_, facts) = (
            read_ledger(folder / "ledger.sqlite"),
            storage.read_checkpoint(folder / storage.CHECKPOINT_FILE),
        )
        rounds = [row["round"] for row in storage.read_history(folder / "history.csv")]
        assert facts["t"] < LONG["rounds"]
        assert len(ledger) >= facts["steps"] == facts["t"]
        assert len(ledger) >= max(rounds, default=0)
        assert [line.step for line in ledger.releases()] == list(range(len(ledger)))
        resumed = small(**LONG, out=folder, resume=True, observers=[interrupt_after(facts["t"] + 9)]).go()
        assert len(resumed.task.ledger) == resumed.t == facts["t"] + 9
        assert json.loads((folder / "result.json").read_text())["rounds"] == resumed.t
        assert all(bool(value.isfinite().all()) for value in load_file(folder / "models.safetensors").values())
        assert isinstance(resumed.models, torch.Tensor)
