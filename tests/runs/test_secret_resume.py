"""A run with secret noise that resumes repeats exactly what it released before, and is refused otherwise."""

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
import torch

import tacit
from tacit.errors import TacitError
from tacit.networks import Simulated
from tacit.privacy import Ledger, Noise
from tacit.runs import Run, RunFolder, verify
from tests.helpers import digits_task, example_algorithm
from tests.runs.cases import AfterRound, assert_same, interrupt_after, interrupt_verb
from tests.runs.secret_cases import copy_of_world, in_world, journal_of, key_of, observed_releases, secret

VARIANTS = {
    "poisson": {},
    "permutation": {"batch": {"size": 16, "sampling": "permutation"}, "sharding": "iid"},
    "without replacement": {"batch": {"size": 16, "sampling": "without-replacement"}, "sharding": "iid"},
    "correlated in time": {
        "algorithm": {"name": "dp-sgd", "lr": 0.5, "local_steps": 3},
        "batch": {"size": 16, "sampling": "cyclic"},
        "sharding": "iid",
        "privacy": {"epsilon": 2.0, "delta": 1e-4, "correlation": "time"},
    },
    "partial": {"algorithm": {"name": "dyn-d2p", "noise_multiplier": 1.5, "share": ["0.weight"]}},
    "one node": {
        "graph": {"name": "complete", "nodes": 1},
        "sharding": "iid",
        "algorithm": {"name": "dp-sgd", "local_steps": 2},
        "privacy": {"epsilon": 2.0, "delta": 1e-4},
    },
}


def crash_after(rounds, folder):
    """An observer that copies the run and the records ledger after so many rounds, as a crash then leaves them."""
    return AfterRound(rounds, lambda run: copy_of_world(run.out, folder))


@pytest.fixture
def started(tmp_path):
    """A run that is interrupted after its first round."""
    return secret(out=tmp_path / "started", observers=[interrupt_after(1)]).go().out


@pytest.fixture
def crashed(started, tmp_path):
    """A run that has crashed after round 8; its last checkpoint is that of round 5."""
    world = tmp_path / "crashed"
    secret(out=started, resume=True, observers=[crash_after(8, world)]).go()
    return world


@pytest.fixture
def whole(started, tmp_path):
    """The same run with the same key, in a world of its own and without a crash."""
    with in_world(copy_of_world(started, tmp_path / "whole")) as run:
        return secret(out=run, resume=True).go()


# Exact repetition


@pytest.mark.parametrize("variant", VARIANTS)
def test_resume_continues_bit_for_bit(variant, tmp_path):
    changes = VARIANTS[variant]
    run = secret(**changes, out=tmp_path / "run", observers=[interrupt_after(1)]).go()
    with in_world(copy_of_world(run.out, tmp_path / "whole")) as copy:
        unbroken = secret(**changes, out=copy, resume=True).go()
    secret(**changes, out=run.out, resume=True, observers=[interrupt_after(7)]).go()
    assert_same(secret(**changes, out=run.out, resume=True).go(), unbroken)


@pytest.mark.parametrize("call", [1, 4, 11])
def test_interrupt_inside_a_round(call, started, whole):
    broken = secret(out=started, resume=True)
    interrupt_verb(broken, "mix", call)
    broken.go()
    assert (broken.t, len(broken.task.ledger)) == (call, call + 1), "what was released stays in the ledger"
    assert broken.go().t == 12, "the run also continues in the same process"
    assert_same(broken, whole)


def test_a_crash_repeats_the_rounds_since_the_last_evaluation(crashed, whole, monkeypatch):
    with in_world(crashed) as run, observed_releases(monkeypatch) as seen:
        resumed = secret(out=run, resume=True)
        assert (resumed.t, len(resumed.task.ledger)) == (5, 8)
        resumed.go()
    assert [step for _, step, _, _ in seen] == list(range(5, 12))
    assert_same(resumed, whole)
    assert verify(run).differences == ()


def test_repeated_interrupts_among_repeated_rounds(crashed, whole):
    with in_world(crashed) as run:
        for rounds in (6, 7, 8, 10):
            assert secret(out=run, resume=True, observers=[interrupt_after(rounds)]).go().t == rounds
        assert_same(secret(out=run, resume=True).go(), whole)


def test_an_older_checkpoint_beside_the_ledger_is_harmless(started, whole, tmp_path):
    """The journal has all values since then: each is repeated bit for bit."""
    before = (started / "checkpoint.safetensors").read_bytes()
    secret(out=started, resume=True, observers=[interrupt_after(9)]).go()
    (started / "checkpoint.safetensors").write_bytes(before)
    resumed = secret(out=started, resume=True)
    assert (resumed.t, len(resumed.task.ledger)) == (1, 9)
    resumed.go()
    assert resumed.models.equal(whole.models)
    assert verify(started).differences == ()


# Other values than before


def change_gradients(monkeypatch, factor):
    """Make gradients differ, as another library or another number of threads may."""
    from tacit.tasks.records import Records

    real = Records.gradient_sums
    monkeypatch.setattr(Records, "gradient_sums", lambda *args: [value.mul_(factor) for value in real(*args)])


def test_another_value_is_refused_and_does_not_leave(crashed, whole, monkeypatch):
    with in_world(crashed) as run:
        before = {path.name: path.read_bytes() for path in run.iterdir() if ".sqlite" not in path.name}
        with monkeypatch.context() as patch, observed_releases(patch) as seen:
            change_gradients(patch, 1.1)
            with pytest.raises(TacitError, match='Step 5 would release another value of "gradient" than before'):
                secret(out=run, resume=True).go()
        assert seen == []
        after = {path.name: path.read_bytes() for path in run.iterdir() if ".sqlite" not in path.name}
        assert after == before, "nothing is saved that was computed from the other value"
        assert_same(secret(out=run, resume=True).go(), whole)


def test_a_difference_that_rounding_removes_is_no_other_value(crashed, whole, monkeypatch):
    change_gradients(monkeypatch, 1 + 1e-9)
    with in_world(crashed) as run:
        assert_same(secret(out=run, resume=True).go(), whole)


def test_rounds_that_were_not_released_before_are_not_compared(crashed, monkeypatch):
    with in_world(crashed) as run:
        secret(out=run, resume=True, observers=[interrupt_after(8)]).go()
        change_gradients(monkeypatch, 1.1)
        assert secret(out=run, resume=True).go().t == 12


def test_changed_records_are_refused(tmp_path):
    rows = "".join(f"{i},{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(200))
    data = {"name": "csv", "path": str(tmp_path / "records.csv"), "label": "y", "labels": ["no", "yes"]}
    changes = {"data": data, "graph": {"name": "ring", "nodes": 3}}
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows)
    run = secret(**changes, out=tmp_path / "run", observers=[interrupt_after(7)]).go().out
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows.replace(",2,", ",3,"))
    with pytest.raises(TacitError, match="training records differ from those of the run"):
        secret(**changes, out=run, resume=True)
    (tmp_path / "records.csv").write_text("a,b,y\n" + rows)
    assert secret(**changes, out=run, resume=True).go().t == 12


# Key, ledger and journal belong together


def test_the_key_is_private_and_in_no_other_file(started):
    assert stat.S_IMODE(os.stat(started / "noise.key").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(started).st_mode) == 0o700
    key = key_of(started)[:32]
    others = [path for path in (*started.iterdir(), *Path(os.environ["TACIT_STATE"]).rglob("*")) if path.is_file()]
    contents = b"".join(path.read_bytes() for path in others if path.name != "noise.key")
    assert key not in contents
    assert key.hex().encode() not in contents


def refused(folder, words, **changes):
    with pytest.raises(TacitError, match=words):
        secret(**changes, out=folder, resume=True)


def test_a_lost_key_is_refused(started):
    (started / "noise.key").unlink()
    refused(started, r"noise\.key is missing, but the ledger beside it contains releases")
    assert not (started / "noise.key").exists()


@pytest.mark.parametrize(("byte", "size"), [(0, 64), (40, 64), (0, 63)])
def test_a_changed_key_is_refused(started, byte, size):
    data = bytearray(key_of(started))
    data[byte] ^= 1
    (started / "noise.key").write_bytes(data[:size])
    refused(started, "belongs to another run" if size == 64 else "must have 64 bytes, got 63")
    assert key_of(started) == data[:size], "a key that is refused stays as it is"


def test_the_key_of_another_run_is_refused(started, tmp_path):
    """It fits config and records. With it, two runs would add the same noise to different values."""
    other = secret(out=tmp_path / "other", observers=[interrupt_after(4)]).go().out
    shutil.copy(other / "noise.key", started)
    refused(started, "belongs to another run")


def test_a_missing_ledger_is_refused(started):
    (started / "ledger.sqlite").unlink()
    refused(started, r"ledger\.sqlite is missing, so past releases are unknown")


@pytest.mark.parametrize("facts", [False, True])
def test_an_empty_ledger_is_refused(started, facts):
    if facts:
        with closing(sqlite3.connect(started / "ledger.sqlite")) as database:
            database.execute("DELETE FROM release")
            database.commit()
        refused(started, "is an older copy of this run: its ledger lacks releases")
    else:
        (started / "ledger.sqlite").unlink()
        Ledger(started / "ledger.sqlite")
        refused(started, "its ledger is not that of a run with a stored noise key")


def test_the_ledger_of_another_run_is_refused(started, tmp_path):
    ledger = started / "ledger.sqlite"
    other = secret(out=tmp_path / "other", observers=[interrupt_after(4)]).go().out
    with closing(sqlite3.connect(other / "ledger.sqlite")) as one, closing(sqlite3.connect(ledger)) as two:
        one.backup(two)
    refused(started, "belongs to another run")


def test_a_run_is_not_resumed_with_another_records_ledger(started, monkeypatch, tmp_path):
    """On another computer, nothing shows what was released since the folder was copied."""
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "elsewhere"))
    refused(started, r"jsonl is missing\..*Set TACIT_STATE to the folder with which the run was started")


def test_a_new_records_ledger_is_refused(started):
    (Path(os.environ["TACIT_STATE"]) / "records.sqlite").unlink()
    refused(started, r"records\.sqlite is not the records ledger of this run")


def test_a_damaged_journal_is_refused_and_a_line_that_was_cut_off_is_not(crashed, whole):
    with in_world(crashed) as run:
        (journal,) = (crashed / "state/journals").iterdir()
        text = journal.read_text()
        journal.write_text(text.replace(", ", ";", 5))
        refused(run, "is damaged. Restore it to resume the run")
        lines = text.splitlines(keepends=True)
        journal.write_text("".join(lines[:-1]) + lines[-1][:30])  # the value of this line has never left
        assert_same(secret(out=run, resume=True).go(), whole)


# Copies


def test_a_copy_cannot_run_at_the_same_time(started, tmp_path):
    shutil.copytree(started, tmp_path / "copy")
    first = secret(out=started, resume=True)
    refused(tmp_path / "copy", "This run, or a copy of its folder, is in use by another process")
    refused(started, "in use by another process")
    assert first.go().t == 12


@pytest.mark.parametrize("ends", [7, 12])
def test_a_copy_that_others_have_overtaken_is_refused(started, ends, tmp_path):
    shutil.copytree(started, tmp_path / "copy")
    observers = [interrupt_after(ends)] if ends < 12 else []
    secret(out=started, resume=True, observers=observers).go()
    refused(tmp_path / "copy", "is an older copy of this run: its ledger lacks releases that the run has made since")


def test_an_older_copy_of_a_crashed_run_is_refused(started, tmp_path):
    """The latest folder is lost, and a backup is restored: it cannot show what was released after it was made."""
    shutil.copytree(started, tmp_path / "backup")
    secret(out=started, resume=True, observers=[crash_after(8, tmp_path / "world")]).go()
    with in_world(tmp_path / "world") as run:
        shutil.rmtree(run)
        refused(shutil.copytree(tmp_path / "backup", run), "is an older copy of this run")


def test_a_copy_from_before_the_end_cannot_use_the_old_key(started, tmp_path):
    """The run ends, its key is erased, and it is extended: the copy still has the first key."""
    shutil.copytree(started, tmp_path / "copy")
    secret(out=started, resume=True).go()
    secret(out=started, resume=True, extend=2, observers=[interrupt_after(13)]).go()
    refused(tmp_path / "copy", "is an older copy of this run")


# The end


def test_the_key_is_erased_when_the_run_has_ended(started):
    key = key_of(started)
    run = secret(out=started, resume=True).go()
    assert not (started / "noise.key").exists()
    assert journal_of(run).read_text() == '[12, "ended"]\n'
    assert key[:32] not in b"".join(path.read_bytes() for path in started.iterdir())
    assert verify(started).differences == ()


def test_an_ended_run_is_verified_by_its_owner_and_by_others(started, monkeypatch, tmp_path):
    secret(out=started, resume=True).go()
    assert verify(started).unchecked == ()
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "elsewhere"))
    found = verify(started)
    assert found.differences == ()
    assert [line.split(":")[0].split(",")[0] for line in found.unchecked] == [
        "the plan of the releases",
        "checkpoint.safetensors",  # the models were released
    ]
    assert not (tmp_path / "elsewhere").exists(), "a verification writes nothing"


def test_the_owner_finds_changed_models(started):
    secret(out=started, resume=True).go()
    with (started / "models.safetensors").open("ab") as file:
        file.write(b" ")
    assert verify(started).differences == ("models.safetensors was changed after the run had ended",)


def test_digests_of_two_runs_on_the_same_records_differ(tmp_path):
    """Equal digests in two published ledgers would show that no record has changed in between."""
    facts = [Ledger(secret(out=tmp_path / name).go().out / "ledger.sqlite").facts.read() for name in "ab"]
    assert facts[0]["inputs"]["training records"] != facts[1]["inputs"]["training records"]


def test_resuming_an_ended_run_changes_nothing(started):
    secret(out=started, resume=True).go()
    before = (started / "history.csv").read_bytes(), (started / "models.safetensors").read_bytes()
    assert secret(out=started, resume=True).go().t == 12
    assert ((started / "history.csv").read_bytes(), (started / "models.safetensors").read_bytes()) == before
    assert not (started / "noise.key").exists()


def test_an_extension_has_a_new_key_and_no_key_is_used_for_two_values(tmp_path, monkeypatch):
    """Interrupts, crashes, copies and extensions, in one list of everything that has left."""
    with observed_releases(monkeypatch) as seen:
        out = secret(out=tmp_path / "run", observers=[interrupt_after(3)]).go().out
        secret(out=out, resume=True, observers=[crash_after(8, tmp_path / "one")]).go()
        with in_world(tmp_path / "one") as run:
            broken = secret(out=run, resume=True)
            interrupt_verb(broken, "mix", 2)
            broken.go()
            secret(out=run, resume=True).go()
        secret(out=out, resume=True, extend=5, observers=[crash_after(14, tmp_path / "two")]).go()
        with in_world(tmp_path / "two") as run:
            extended = secret(out=run, resume=True).go()
        secret(out=out, resume=True, extend=2).go()
    assert extended.t == 17
    values = {}
    for key, step, purpose, value in seen:
        values.setdefault((key, step, purpose), set()).add(value)
    assert all(len(each) == 1 for each in values.values())
    keys = [{key for key, step, _, _ in seen if step in steps} for steps in (range(12), range(12, 17), range(17, 19))]
    assert [len(each) for each in keys] == [1, 1, 1]
    assert len(set.union(*keys)) == 3
    assert verify(out).differences == ()


def test_a_refused_extension_leaves_no_key(started):
    secret(out=started, resume=True).go()
    refused(
        started, "algorithm.lr is 0.5 in the ledger", algorithm={"name": "dyn-d2p", "lr": 0.7, "noise_multiplier": 1.5}
    )
    assert not (started / "noise.key").exists()
    assert secret(out=started, resume=True, extend=2).go().t == 14


def test_a_new_key_begins_with_an_epoch(tmp_path):
    """Within an epoch, records could be drawn twice under two keys, and the ledger would count one draw."""
    changes = {**VARIANTS["permutation"], "graph": {"name": "ring", "nodes": 4}, "rounds": 11}
    run = secret(**changes, out=tmp_path / "run").go()
    period = int(run.task.sampler.period[0])
    assert (run.task.sampler.period == period).all()
    assert 11 % period
    with pytest.raises(TacitError, match='it has ended within an epoch of sampling "permutation"'):
        secret(**changes, out=run.out, resume=True, extend=2)
    assert not (run.out / "noise.key").exists()
    whole = changes | {"rounds": period}
    fits = secret(**whole, out=tmp_path / "fits").go()
    assert secret(**whole, out=fits.out, resume=True, extend=2).go().t == period + 2


def test_a_run_that_its_budget_has_ended_has_no_key(tmp_path):
    target = {"algorithm": {"name": "const-d2p", "noise_multiplier": 1.0}, "privacy": {"budget": 0.5, "delta": 1e-4}}
    run = secret(**target, out=tmp_path / "run").go()
    assert 0 < run.t < 12
    assert run.is_over
    assert not (run.out / "noise.key").exists()
    again = secret(**target, out=run.out, resume=True).go()
    assert (again.t, again.stopped) == (run.t, run.stopped)
    assert verify(run.out).differences == ()


def test_a_run_that_its_budget_has_ended_within_a_round_is_not_resumed(tmp_path):
    """A new key would give other noise to releases of that round, and the ledger has them once."""
    target = {"algorithm": {"name": "dp-sgd", "local_steps": 5, "sigma": 0.1}}
    target |= {"privacy": {"budget": 2.0, "delta": 1e-4}, "graph": {"name": "ring", "nodes": 5}}
    run = secret(**target, out=tmp_path / "run").go()
    assert run.is_over
    assert len(run.task.ledger) % 5, "the budget ends between two releases of a round"
    refused(run.out, "it has ended, its noise key is erased, and its checkpoint is from step", **target)
    assert not (run.out / "noise.key").exists()
    assert verify(run.out).differences == ()


def test_an_erased_key_is_not_replaced_for_steps_that_it_has_released(started):
    """The checkpoint of an earlier round beside the ledger of the ended run."""
    before = (started / "checkpoint.safetensors").read_bytes()
    secret(out=started, resume=True).go()
    (started / "checkpoint.safetensors").write_bytes(before)
    refused(started, "it has ended, its noise key is erased, and its checkpoint is from step 1 of 12")


def test_a_key_that_was_restored_after_the_end_is_not_used(started):
    key = key_of(started)
    secret(out=started, resume=True).go()
    (started / "noise.key").write_bytes(key)
    run = secret(out=started, resume=True, extend=2)
    assert key_of(started) != key
    assert run.go().t == 14


def test_a_run_that_failed_keeps_its_key(tmp_path):
    def fail(run):
        raise TacitError("the disk is full")

    with pytest.raises(TacitError, match="the disk is full"):
        secret(out=tmp_path / "run", observers=[AfterRound(6, fail)]).go()
    assert secret(out=tmp_path / "run", resume=True).go().t == 12


# Without a config, and without a folder


def test_without_a_folder_no_key_is_stored():
    run = secret().go()
    assert run.task.ledger.journal is None
    assert not (Path(os.environ["TACIT_STATE"]) / "journals").exists()


def test_a_run_that_cannot_begin_leaves_neither_key_nor_journal(tmp_path):
    with pytest.raises(TacitError):
        secret(out=tmp_path / "run", privacy={"delta": 1e-4, "population_budget": 1e-6})
    assert list(tmp_path.iterdir()) == []
    assert list((Path(os.environ["TACIT_STATE"]) / "journals").iterdir()) == []


def test_python_resumes_a_secret_run(tmp_path):
    given = {"nodes": 3, "rounds": 6, "batch": 8, "epsilon": 1.0, "sharding": "digest", "noise": "secret"}
    tacit.train(**given, out=tmp_path / "run", observers=[interrupt_after(2)])
    run = tacit.train(**given, out=tmp_path / "run", resume=True)
    assert (run.t, run.privacy.runs) == (6, 1)


def by_hand(folder, observers=()):
    task = digits_task(3)
    task.noise, task.ledger = folder.noise or Noise.from_key(bytes(range(32))), folder.ledger
    algorithm = example_algorithm("const-d2p", 4, noise_multiplier=1.0)
    return Run(task, algorithm, Simulated(tacit.graphs.ring(3)), observers=[folder, *observers]).go()


def test_a_folder_with_secret_noise_for_a_run_built_by_hand(tmp_path):
    by_hand(RunFolder.create(tmp_path / "run", secret=True), [interrupt_after(2)])
    assert by_hand(RunFolder.open(tmp_path / "run", secret=True)).t == 4
    by_hand(RunFolder.create(tmp_path / "other"), [interrupt_after(2)])
    with pytest.raises(TacitError, match="its noise is secret, and its key is not in the folder"):
        by_hand(RunFolder.open(tmp_path / "other"))


def test_values_of_every_node_are_compared(tmp_path):
    run = secret(out=tmp_path / "run")
    journal, value = run.task.ledger.journal, torch.ones(2, 3)
    for _ in range(2):
        journal.admit(0, "a", value)
    value[1, 2] = 2
    for step, purpose in ((1, "a"), (0, "b")):
        journal.admit(step, purpose, value)
    with pytest.raises(TacitError, match="would release another value"):
        journal.admit(0, "a", value)
