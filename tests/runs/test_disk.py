"""A full disk: one error message, and files written before stay intact."""

import errno
import os
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.runs import storage
from tests.runs.cases import AfterRound, assert_same, interrupt_after, small


@pytest.fixture
def disk(monkeypatch):
    """A disk on which every write fails half-way after `full()`."""
    real = Path.write_bytes

    def half(path, data):
        real(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    class Disk:
        def full(self):
            monkeypatch.setattr(Path, "write_bytes", half)

        def emptied(self):
            monkeypatch.setattr(Path, "write_bytes", real)

    return Disk()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if ".sqlite" not in path.name}


def test_failed_write_leaves_the_old_file(disk, tmp_path):
    storage.write(tmp_path / "file", b"old")
    disk.full()
    with pytest.raises(TacitError, match=r"cannot write .*file: No space left on device"):
        storage.write(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"old"}


def test_failed_rename_leaves_the_old_file(monkeypatch, tmp_path):
    storage.write(tmp_path / "file", b"old")

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(TacitError, match="No space left on device"):
        storage.write(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"old"}


def test_run_that_cannot_begin_leaves_no_folder(disk, tmp_path):
    disk.full()
    with pytest.raises(TacitError, match=r"cannot write .*config.toml: No space left on device"):
        small(out=tmp_path / "runs/one")
    assert not (tmp_path / "runs/one").exists()


def test_run_resumes_after_a_full_disk(disk, tmp_path):
    def fill(run):
        kept.update(contents(tmp_path / "run"))
        disk.full()

    kept = {}
    run = small(out=tmp_path / "run", observers=[AfterRound(7, fill)])
    with pytest.raises(TacitError, match="No space left on device"):
        run.go()
    assert contents(tmp_path / "run") == kept
    disk.emptied()
    resumed = small(out=tmp_path / "run", resume=True)
    assert resumed.t == 5
    assert_same(resumed.go(), small().go())


def test_full_ledger_stops_the_run(tmp_path):
    changes = {"rounds": 200, "evaluate_every": 50}
    run = small(**changes, out=tmp_path / "run")
    pages = run.task.ledger._db.execute("PRAGMA page_count").fetchone()[0]
    run.task.ledger._db.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(TacitError, match=r"The ledger .*ledger.sqlite cannot be used: .*full"):
        run.go()
    resumed = small(**changes, out=tmp_path / "run", resume=True)
    assert len(resumed.task.ledger) == resumed.t


def test_folder_that_is_not_empty_is_refused(tmp_path):
    small(out=tmp_path / "run", observers=[interrupt_after(1)]).go()
    with pytest.raises(TacitError, match="is not empty"):
        small(out=tmp_path / "run")
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file/run"):
        with pytest.raises(TacitError, match="file"):
            small(out=path)
    assert (tmp_path / "file").read_text() == "in the way"


def test_unused_folders_are_numbered(tmp_path):
    for name in ("run", "run-2", "run-3"):
        folder = storage.unused_folder(tmp_path, "run")
        assert folder.name == name
        folder.mkdir()
