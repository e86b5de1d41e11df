"""A simulation writes its releases in blocks. No reader, and no file that is written later, may miss any of them."""

import sqlite3

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import (
    Bounded,
    Gaussian,
    Ledger,
    Noise,
    Release,
    ReleaseContext,
    Sampling,
    ledger_guarantee,
    read_ledger,
    release_table,
)

ALL = Sampling("none", np.ones(2), "add-remove")


def record(ledger, step, purpose="gradient", scale=4.0, *, simulated=True):
    ledger.record(Release(step, purpose, Gaussian(np.array([scale, 5.0])), ALL), simulated=simulated)


def written(ledger):
    """The number of releases in the database, without those that wait."""
    return ledger._table._connection.execute("SELECT COUNT(*) FROM release").fetchone()[0]


READERS = {
    "len": len,
    "steps": lambda ledger: ledger.steps,
    "steps_repeated": lambda ledger: ledger.steps_repeated,
    "releases": lambda ledger: len(list(ledger.releases())),
    "last releases": lambda ledger: 2 + len(list(ledger.releases(2))),
    "events": lambda ledger: ledger.to_dp_events()[0].events[0].count,
    "guarantee": lambda ledger: 3 if ledger_guarantee(ledger, 1e-5)[0].max() == three_releases() else 0,
    "serialised": lambda ledger: count(ledger._db.serialize()),
}


def three_releases():
    ledger = Ledger()
    for step in range(3):
        record(ledger, step, simulated=False)
    return ledger_guarantee(ledger, 1e-5)[0].max()


def count(data):
    ledger = Ledger()
    ledger._db.deserialize(data)
    return len(list(ledger.releases()))


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_reader_sees_releases_that_wait(reader):
    ledger = Ledger()
    for step in range(3):
        record(ledger, step)
    assert written(ledger) == 0
    assert reader(ledger) == 3


def test_digests_and_marks_have_releases_that_wait():
    one, other = Ledger(), Ledger()
    facts = one.facts  # from before the releases
    for step in range(5):
        record(one, step)
        record(other, step, simulated=False)
    facts.mark(5, 5)
    other.facts.mark(5, 5)
    assert facts.marks() == other.facts.marks()
    assert facts.content_digest() == other.facts.content_digest()


def test_releases_without_simulated_noise_never_wait(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", durable=True)
    record(ledger, 0)  # a durable ledger writes first in any case
    record(ledger, 1, simulated=False)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        assert other.execute("SELECT COUNT(*) FROM release").fetchone() == (2,)
    other.close()
    plain = Ledger()
    record(plain, 0)
    assert written(plain) == 0
    record(plain, 1, simulated=False)
    assert written(plain) == 2


@pytest.mark.parametrize(("noise", "expected"), [(Noise.from_seed(0), 0), (Noise.from_system(), 1)])
def test_the_noise_decides_whether_a_release_waits(noise, expected):
    ledger, seen = Ledger(), []

    class Watched(Noise):
        def gaussian_(self, *args, **kwargs):
            seen.append(written(ledger))
            return super().gaussian_(*args, **kwargs)

    noise.__class__ = Watched
    value = Bounded(torch.zeros(2, 3), np.ones(2), "l2", ALL, 0, "g", ReleaseContext(np.arange(2), ledger, noise))
    Gaussian(1.0).release(value)
    assert seen == [expected]
    assert len(ledger) == 1


def test_a_release_that_waits_is_not_made_twice():
    ledger = Ledger()
    record(ledger, 3)
    for _ in range(2):
        for step, purpose in ((3, "gradient"), (1, "momentum")):
            if (step, purpose) == (1, "momentum") and len(ledger) == 1:
                record(ledger, step, purpose)
            with pytest.raises(TacitError, match=f'Step {step} has already released "{purpose}"'):
                record(ledger, step, purpose)
    assert len(ledger) == 2


def test_a_full_block_is_written(monkeypatch):
    monkeypatch.setattr(release_table, "_BLOCK", 4)
    ledger = Ledger()
    for step in range(7):
        record(ledger, step)
    assert written(ledger) == 4
    assert len(ledger) == 7


def test_rewinding_removes_releases_that_wait():
    ledger = Ledger()
    for step in range(5):
        record(ledger, step)
    ledger.rewind(3)
    assert (ledger.steps, len(ledger)) == (3, 3)
    record(ledger, 3, scale=7.0)
    assert [float(line.multipliers[0]) for line in ledger.releases()] == [4.0, 4.0, 4.0, 7.0]


def test_flush_writes_releases_that_wait_to_the_file(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for step in range(3):
        record(ledger, step)
    assert len(read_ledger(tmp_path / "ledger.sqlite")) == 0
    ledger.flush()
    assert len(read_ledger(tmp_path / "ledger.sqlite")) == 3


def test_a_ledger_that_lost_releases_states_nothing_any_more(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    record(ledger, 0)
    ledger.flush()
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages + 1}")
    for step in range(1, 400):
        record(ledger, step, f"a purpose with many letters {step:04d}" * 5)
    readers = [*READERS.values(), Ledger.flush, lambda each: each.facts.marks(), lambda each: record(each, 1000)]
    for reader in readers:
        with pytest.raises(TacitError, match=r"ledger\.sqlite cannot be used: .*full"):
            reader(ledger)
    assert len(Ledger(tmp_path / "ledger.sqlite")) == 1
