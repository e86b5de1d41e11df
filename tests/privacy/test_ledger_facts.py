"""What a ledger records besides releases: facts, marks, and the chain of digests."""

import sqlite3

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.privacy import Gaussian, Ledger, Noise, Release, Sampling, read_ledger

POISSON = Sampling("poisson", np.array([0.1, 0.2]), "add-remove")


def record(ledger, steps, multiplier=2.0):
    for step in steps:
        ledger.record(Release(step, "gradient", Gaussian(np.array([multiplier, 3.0])), POISSON))


def test_facts_are_in_the_file_and_can_be_replaced_and_removed(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.facts.write(seed=3, config={"lr": 0.5})
    ledger.facts.write(seed=4)
    assert read_ledger(tmp_path / "ledger.sqlite").facts.read() == {"config": {"lr": 0.5}, "seed": 4}
    ledger.facts.remove("seed", "unknown")
    assert ledger.facts.read() == {"config": {"lr": 0.5}}


def test_digest_of_the_releases_does_not_depend_on_the_marks():
    with_marks, without = Ledger(), Ledger()
    for ledger in (with_marks, without):
        record(ledger, range(4))
    with_marks.facts.mark(2, 2)
    with_marks.facts.mark(4, 4)
    for ledger in (with_marks, without):
        record(ledger, range(4, 7))
    assert with_marks.facts.releases_digest() == without.facts.releases_digest()
    assert with_marks.facts.releases_digest(4) == without.facts.releases_digest(4) == with_marks.facts.marks()[1].digest
    assert with_marks.facts.first_changed_mark() is None


@pytest.mark.parametrize("change", ["DELETE FROM release", "UPDATE release SET purpose = 'x'"])
def test_first_mark_after_a_change_is_found(change):
    ledger = Ledger()
    record(ledger, range(6))
    for steps in (0, 1, 3, 6):
        ledger.facts.mark(steps, steps)
    ledger._db.execute(f"{change} WHERE step = 1")
    assert ledger.facts.first_changed_mark().round == 3


def test_marks_of_rounds_that_are_repeated_are_replaced():
    ledger = Ledger()
    record(ledger, range(6))
    for steps in (2, 4, 6):
        ledger.facts.mark(steps, steps)
    ledger.facts.mark(4, 5)
    assert [(mark.round, mark.steps) for mark in ledger.facts.marks()] == [(2, 2), (4, 5)]
    ledger.facts.forget_marks(2)
    assert [mark.round for mark in ledger.facts.marks()] == [2]


def test_content_digest_covers_every_table():
    ledger = Ledger()
    record(ledger, range(3))
    ledger.facts.write(seed=3)
    ledger.facts.mark(3, 3)
    ledger.open(3, "gradient")
    ledger.flush()
    digests = [ledger.facts.content_digest()]
    for change in (
        "UPDATE vector SET data = x'00'",
        "UPDATE fact SET value = 4",
        "UPDATE mark SET steps = 2",
        "DELETE FROM exact_value",
        "DELETE FROM release WHERE step = 2",
    ):
        ledger._db.execute(change)
        digests.append(ledger.facts.content_digest())
    assert len(set(digests)) == 6
    assert not ledger.facts.has_intact_vectors()


@pytest.mark.parametrize("durable", [False, True])
def test_reading_changes_nothing_in_the_folder(durable, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", durable=durable)
    record(ledger, range(3))
    ledger.flush()
    assert len(read_ledger(tmp_path / "ledger.sqlite")) == 3, "while the ledger is open"
    ledger._db.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    copy = read_ledger(tmp_path / "ledger.sqlite")
    record(copy, [3])
    assert (len(copy), copy.steps) == (4, 4)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_releases_that_a_killed_process_had_not_flushed_are_not_read(tmp_path):
    ledger = Ledger(tmp_path / "live.sqlite")
    record(ledger, range(3))
    ledger.flush()
    ledger._db.execute("PRAGMA cache_size = 1")  # a full cache writes pages before the commit
    record(ledger, range(3, 300))
    for suffix in ("", "-journal"):
        (tmp_path / f"killed.sqlite{suffix}").write_bytes((tmp_path / f"live.sqlite{suffix}").read_bytes())
    before = (tmp_path / "killed.sqlite").read_bytes()
    assert len(read_ledger(tmp_path / "killed.sqlite")) == 3
    assert (tmp_path / "killed.sqlite").read_bytes() == before


def test_what_is_not_a_ledger_is_refused(tmp_path):
    with pytest.raises(TacitError, match="does not exist"):
        read_ledger(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()
    (tmp_path / "text.sqlite").write_text("nothing that SQLite knows " * 100)
    with pytest.raises(TacitError, match="cannot be used"):
        read_ledger(tmp_path / "text.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE other (x)")
    other.close()
    with pytest.raises(TacitError, match="cannot be used"):
        read_ledger(tmp_path / "other.sqlite")


def test_keyed_digest_depends_on_the_key_and_on_every_part():
    one, other = Noise.from_seed(0), Noise.from_seed(1)
    assert one.keyed_digest(b"ab", b"c") == one.keyed_digest(b"ab", memoryview(b"c"))
    found = {one.keyed_digest(b"ab", b"c"), one.keyed_digest(b"a", b"bc"), one.keyed_digest(b"abc")}
    assert len(found | {other.keyed_digest(b"ab", b"c")}) == 4
