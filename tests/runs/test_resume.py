"""A run that is interrupted and resumed equals the uninterrupted run, bit for bit."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from tacit.errors import TacitError
from tests.runs import own
from tests.runs.cases import SMALL, AfterRound, assert_same, interrupt_after, interrupt_verb, small

OVER_DPPS = {"noise_rate": 0.01, "clip": 0.5, "sync_every": 3, "sensitivity": "certified"}
VARIANTS = {
    "poisson": {},
    "permutation": {"batch": {"size": 16, "sampling": "permutation"}},
    "without replacement": {"batch": {"size": 16, "sampling": "without-replacement"}},
    "drop-out": {"graph": {"name": "ring", "nodes": 5, "drop_links": 0.3, "drop_nodes": 0.1, "drop_seed": 4}},
    "sizes": {"sharding": {"name": "sizes", "ratio": 4.0}, "privacy": {"epsilon": 2.0, "delta": 1e-4}}
    | {"algorithm": {"name": "dyn-d2p"}},
    "no noise": {"algorithm": {"name": "sgp"}},
    "partial": {"algorithm": {"name": "dyn-d2p", "noise_multiplier": 1.5, "share": ["0.weight"]}},
    "partpsp": {"algorithm": OVER_DPPS | {"name": "partpsp", "share": ["0.weight"]}},
    "sgpdp": {"algorithm": OVER_DPPS | {"name": "sgpdp"}},  # without local parameters
    "pedfl": {"algorithm": OVER_DPPS | {"name": "pedfl"}},
}


@pytest.fixture(scope="module")
def whole():
    return small().go()


@pytest.mark.parametrize("variant", VARIANTS)
def test_resume_continues_bit_for_bit(variant, tmp_path):
    changes = VARIANTS[variant]
    small(**changes, out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    resumed = small(**changes, out=tmp_path / "run", resume=True)
    assert resumed.t == 7
    assert_same(resumed.go(), small(**changes).go())


@pytest.mark.parametrize(
    ("mode", "broken"),
    [
        ("certified", ("mix", 5)),
        ("certified", ("mean", 6)),
        ("certified", ("max", 4)),
        ("estimated", ("mix", 5)),
        ("estimated", ("diameter", 9)),
        ("real", ("diameter", 9)),
    ],
    ids=str,
)
def test_resume_continues_the_trace_of_sensitivities(mode, broken, tmp_path):
    algorithm = OVER_DPPS | {"name": "partpsp", "share": ["0.weight"], "sensitivity": mode}
    run = small(algorithm=algorithm, out=tmp_path / "run")
    interrupt_verb(run, *broken)
    run.go()
    assert 0 < run.t < 12
    resumed = small(algorithm=algorithm, out=tmp_path / "run", resume=True).go()
    unbroken = small(algorithm=algorithm, out=tmp_path / "whole").go()
    assert_same(resumed, unbroken)
    assert [row["round"] for row in resumed.trace] == list(range(1, 13))
    assert list(resumed.trace[0]) == ["round", *dict.fromkeys(["real", mode, "estimated", "certified"])]
    assert resumed.trace == unbroken.trace
    assert (tmp_path / "run/trace.csv").read_bytes() == (tmp_path / "whole/trace.csv").read_bytes()


@pytest.mark.parametrize("round_", [1, 4, 5, 6, 11, 12])  # evaluations are after rounds 5, 10 and 12
def test_interrupt_after_any_round(whole, round_, tmp_path):
    broken = small(out=tmp_path / "run", observers=[interrupt_after(round_)]).go()
    assert (broken.t, broken.interrupted) == (round_, True)
    assert broken.stopped == f"stopped by hand after {round_} of 12 rounds"
    assert broken.result()["rounds"] == round_
    assert_same(small(out=tmp_path / "run", resume=True).go(), whole)


@pytest.mark.parametrize("call", [1, 6, 12])
def test_interrupt_inside_a_round(whole, call, tmp_path):
    broken = small(out=tmp_path / "run")
    interrupt_verb(broken, "mix", call)
    broken.go()
    # The release and the messages of the incomplete round are discarded.
    assert broken.t == call - 1 == len(broken.task.ledger) == broken.network.traffic.rounds
    assert_same(small(out=tmp_path / "run", resume=True).go(), whole)


@pytest.mark.parametrize("call", [1, 3, 4])
def test_interrupt_during_an_evaluation(whole, call, tmp_path):
    broken = small(out=tmp_path / "run")
    interrupt_verb(broken, "mean", call)
    broken.go()
    assert_same(small(out=tmp_path / "run", resume=True).go(), whole)


def test_repeated_interrupts(whole, tmp_path):
    small(out=tmp_path / "run", observers=[interrupt_after(1)]).go()
    for round_ in (2, 5, 6, 11):
        small(out=tmp_path / "run", resume=True, observers=[interrupt_after(round_)]).go()
    assert_same(small(out=tmp_path / "run", resume=True).go(), whole)


def test_run_continues_in_the_same_process(whole, tmp_path):
    run = small(observers=[interrupt_after(7)]).go()
    interrupt_verb(run, "mix", 2)
    assert run.go().t == 8
    assert_same(run.go(), whole)
    assert (run.stopped, run.interrupted) == (None, False)


def test_crash_loses_only_the_rounds_since_the_last_evaluation(whole, tmp_path):
    crash = AfterRound(8, lambda run: shutil.copytree(tmp_path / "run", tmp_path / "crashed"))
    small(out=tmp_path / "run", observers=[crash]).go()
    resumed = small(out=tmp_path / "crashed", resume=True)
    assert resumed.t == 5
    assert_same(resumed.go(), whole)


def test_resuming_a_finished_run_changes_nothing(whole, tmp_path):
    small(out=tmp_path / "run").go()
    before = (tmp_path / "run/history.csv").read_bytes()
    resumed = small(out=tmp_path / "run", resume=True)
    interrupt_verb(resumed, "mix", 1)
    assert_same(resumed.go(), whole)
    assert (tmp_path / "run/history.csv").read_bytes() == before


def test_folder_contains_history_and_models_of_the_run(tmp_path):
    run = small(out=tmp_path / "run").go()
    table = pd.read_csv(tmp_path / "run/history.csv")
    assert table.columns.tolist() == list(run.evaluations[0])
    assert table["round"].tolist() == [0, 5, 10, 12]
    assert table["guaranteed"].tolist() == [row["guaranteed"] for row in run.evaluations]
    assert table["guaranteed"].iloc[-1] == pytest.approx(run.privacy.guaranteed, rel=0.01)
    assert torch.equal(load_file(tmp_path / "run/models.safetensors")["models"], run.models)
    assert not list((tmp_path / "run").glob("*.part"))


# What cannot be resumed


def refused(folder, *words, **changes):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(TacitError) as refusal:
        small(**changes, out=folder, resume=True)
    for word in words:
        assert word in str(refusal.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def stopped(tmp_path):
    small(out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    return tmp_path / "run"


def test_unreadable_checkpoint_is_refused(stopped):
    (stopped / "checkpoint.safetensors").write_bytes(bytes(range(256)) * 9)
    refused(stopped, "checkpoint.safetensors cannot be read as a checkpoint")


def test_truncated_checkpoint_is_refused(stopped):
    whole = (stopped / "checkpoint.safetensors").read_bytes()
    (stopped / "checkpoint.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(stopped, "checkpoint.safetensors cannot be read as a checkpoint")


def test_checkpoint_of_another_program_is_refused(stopped):
    save_file({"x": torch.zeros(5, 650), "w": torch.ones(5)}, stopped / "checkpoint.safetensors")
    refused(stopped, "checkpoint.safetensors was written by another program")


@pytest.mark.parametrize("changes", [{"algorithm": {"name": "sgp"}}, {"graph": {"name": "ring", "nodes": 4}}])
def test_checkpoint_of_another_run_is_refused(stopped, changes, tmp_path):
    small(**changes, out=tmp_path / "other", observers=[interrupt_after(7)]).go()
    shutil.copy(tmp_path / "other/checkpoint.safetensors", stopped)
    refused(stopped, "belongs to another run")


def test_different_config_is_refused_with_the_key_that_differs(stopped):
    refused(stopped, "contains another run: ", "seed is 0 in the ledger, got 1", seed=1)
    changes = {"data": {"name": "digits", "limit": 500}, "privacy": {"delta": 1e-5}}
    refused(stopped, "data.limit is not set in the ledger, got 500; privacy.delta is 0.0001 in the ledger", **changes)
    refused(stopped, "rounds is 12 in the ledger, got 20. To continue a run beyond its rounds", rounds=20)


def test_ledger_decides_and_not_the_config_file(stopped):
    """Someone who edits config.toml and passes the same settings continues another run."""
    text = (stopped / "config.toml").read_text()
    (stopped / "config.toml").write_text(text.replace("lr = 0.5", "lr = 0.7"))
    refused(stopped, "algorithm.lr is 0.5 in the ledger, got 0.7", algorithm=SMALL["algorithm"] | {"lr": 0.7})


def test_other_records_of_the_same_form_are_refused(tmp_path):
    rows = "".join(f"{i},{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(200))
    changes = {"data": {"name": "csv", "path": str(tmp_path / "records.csv"), "label": "y", "labels": ["no", "yes"]}}
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows)
    small(**changes, out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows.replace(",2,", ",3,"))
    words = "shards, test records and training records differ from those of the run. Restore the original files"
    refused(tmp_path / "run", words, **changes)
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows)
    assert small(**changes, out=tmp_path / "run", resume=True).go().t == 12


def test_changed_code_of_an_algorithm_is_refused(tmp_path):
    code = Path(own.__file__).read_text()
    (tmp_path / "mine.py").write_text(code)
    changes = {"algorithm": {"name": f"{tmp_path}/mine.py:Mine"}}
    small(**changes, out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    (tmp_path / "mine.py").write_text(code + "# changed\n")
    refused(tmp_path / "run", "the contents of the file of the algorithm differ", **changes)


def test_ledger_without_facts_is_refused(stopped):
    with closing(sqlite3.connect(stopped / "ledger.sqlite")) as database:
        database.execute("DELETE FROM fact")
        database.commit()
    refused(stopped, "ledger.sqlite was written by another version of Tacit")


def test_result_of_an_earlier_end_is_removed_when_the_run_continues(stopped):
    assert (stopped / "result.json").is_file()
    run = small(out=stopped, resume=True, observers=[AfterRound(8, lambda run: seen.extend(run.out.iterdir()))])
    assert (stopped / "result.json").is_file()
    seen = []
    run.go()
    assert "result.json" not in {path.name for path in seen}


def test_missing_checkpoint_is_refused(stopped):
    (stopped / "checkpoint.safetensors").unlink()
    refused(stopped, "checkpoint.safetensors does not exist")


def test_ledger_with_too_few_steps_is_refused(stopped, tmp_path):
    small(out=tmp_path / "young", observers=[interrupt_after(3)]).go()
    shutil.copy(tmp_path / "young/ledger.sqlite", stopped)
    refused(stopped, "has 3 steps, but the run has made 7")


@pytest.mark.parametrize("step", [2, 6])  # before and after the last evaluation
def test_ledger_with_a_changed_release_is_refused(stopped, step):
    with closing(sqlite3.connect(stopped / "ledger.sqlite")) as database:
        database.execute("UPDATE release SET purpose = 'x' WHERE step = ?", (step,))
        database.commit()
    refused(stopped, "ledger.sqlite was changed: its releases are not those of the run")


def test_damaged_ledger_is_refused(stopped):
    (stopped / "ledger.sqlite").write_bytes(b"nothing that SQLite knows " * 100)
    refused(stopped, "ledger.sqlite", "not a database")


def test_damaged_history_is_refused(stopped):
    (stopped / "history.csv").write_text("round,loss\n0,much\n")
    refused(stopped, "history.csv cannot be read")


def test_folder_contains_the_config(stopped):
    import tomllib

    saved = tomllib.loads((stopped / "config.toml").read_text())
    assert {key: saved[key] | SMALL[key] if isinstance(SMALL[key], dict) else SMALL[key] for key in SMALL} == {
        key: saved[key] for key in SMALL
    }
