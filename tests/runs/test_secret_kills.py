"""A run with secret noise that is killed again and again equals the same run without kills, bit for bit."""

import json
import os
import random
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tacit.privacy import RecordsLedger, read_ledger
from tacit.runs import storage, verify
from tests.fork_server import FORK_SERVER
from tests.runs.cases import interrupt_after
from tests.runs.secret_cases import copy_of_world, in_world, secret

CHANGES = {"rounds": 300, "evaluate_every": 10}


def run_tacit(state, folder):
    """Resume a run with `python -m tacit train` in a new process."""
    with Path(folder).with_suffix(".log").open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["TACIT_STATE"] = str(state)
    sys.argv = ["tacit", "train", "--resume", str(folder)]
    runpy.run_module("tacit", run_name="__main__")


def resumed(world):
    process = FORK_SERVER.Process(target=run_tacit, args=(world / "state", world / "run"), daemon=True)
    process.start()
    return process


def released(world):
    """The digests of all released values in the journal, by step and purpose."""
    (journal,) = (world / "state/journals").iterdir()
    lines = journal.read_text().splitlines(keepends=True)
    return {tuple(line[:2]): line[2] for line in (json.loads(text) for text in lines if text.endswith("\n"))}


def kill_once_it_has_released(process, world, steps):
    """Kill the process at a random moment after so many steps, or some time after it has started."""
    deadline = time.monotonic() + 60
    while process.is_alive() and len(released(world)) < steps and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(random.random() * 0.02)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.join()


def contents(run):
    """Everything that must be equal: models, rows without times, releases, marks, and the state of the algorithm."""
    ledger = read_ledger(run / "ledger.sqlite")
    tensors, facts = storage.read_checkpoint(run / "checkpoint.safetensors")
    rows = [{k: v for k, v in row.items() if k != "wall_seconds"} for row in storage.read_history(run / "history.csv")]
    return (
        (run / "models.safetensors").read_bytes(),
        rows,
        ledger.facts.releases_digest(from_start=True),
        ledger.facts.marks(),
        {key: value.numpy().tobytes() for key, value in tensors.items()},
        {key: value for key, value in facts.items() if key != "seconds"},
        json.loads((run / "result.json").read_text())["privacy"],
    )


@pytest.mark.parametrize("kills", [3])
def test_kills_at_random_moments(tmp_path, kills):
    random.seed(0)
    start = secret(**CHANGES, out=tmp_path / "start", observers=[interrupt_after(1)]).go().out
    whole, broken = (copy_of_world(start, tmp_path / name) for name in ("whole", "broken"))
    with in_world(whole) as run:
        secret(**CHANGES, out=run, resume=True).go()
    seen, made = {}, 0
    for target in sorted(random.sample(range(2, CHANGES["rounds"] - 20), kills)):
        process = resumed(broken)
        kill_once_it_has_released(process, broken, target)
        assert process.exitcode == -signal.SIGKILL, (broken / "run.log").read_text()
        now = released(broken)
        assert now.items() >= seen.items(), "no digest changes or disappears"
        made += len(now) > len(seen)
        seen = now
        ledger = read_ledger(broken / "run/ledger.sqlite")
        assert {(line.step, line.purpose) for line in ledger.releases()} >= set(now), "the ledger is written first"
        with in_world(broken):
            (entry,) = RecordsLedger().find("#1")[1]
            assert (entry.ended, len(entry.releases)) == (False, CHANGES["rounds"])
    assert made >= kills - 1
    process = resumed(broken)
    process.join()
    assert process.exitcode == 0, (broken / "run.log").read_text()
    assert contents(broken / "run") == contents(whole / "run")
    for world in (whole, broken):
        assert not (world / "run/noise.key").exists()
        with in_world(world) as run:
            assert verify(run).differences == ()
