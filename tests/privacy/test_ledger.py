import math
import sqlite3

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.privacy import Exact, Gaussian, Laplace, Ledger, Release, Sampling, guarantee
from tacit.privacy.accounting.losses import SampledLoss, count_losses

POISSON = Sampling("poisson", np.array([0.1, 0.2]), "add-remove")
ALL = np.arange(2)


def record(ledger, step, purpose="gradient", mechanism=Gaussian, multipliers=(2.0, 3.0), sampling=POISSON):
    ledger.record(Release(step, purpose, mechanism(np.array(multipliers)), sampling))


def test_releases_are_read_as_they_were_written(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", durable=True)
    record(ledger, 0)
    record(ledger, 1, multipliers=(4.0, 5.0))
    lines = list(Ledger(tmp_path / "ledger.sqlite").releases())
    assert [line.step for line in lines] == [0, 1]
    assert lines[1].multipliers.tolist() == [4.0, 5.0]
    assert lines[0].rates.tolist() == [0.1, 0.2]
    assert isinstance(lines[0].mechanism, Gaussian)
    assert (lines[0].sampling.kind, lines[0].sampling.relation) == ("poisson", "add-remove")


def test_a_durable_ledger_is_on_disk_before_record_returns(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path, durable=True)
    for step in range(3):
        record(ledger, step)
        with sqlite3.connect(path) as other:
            assert other.execute("SELECT COUNT(*) FROM release").fetchone() == (step + 1,)
        other.close()


def test_equal_vectors_are_stored_once():
    ledger = Ledger()
    for step in range(50):
        record(ledger, step)
    assert ledger._db.execute("SELECT COUNT(*) FROM vector").fetchone() == (2,)
    assert len(ledger) == ledger.steps == 50


def test_the_same_step_and_purpose_is_never_released_twice():
    ledger = Ledger()
    record(ledger, 3)
    with pytest.raises(TacitError, match='Step 3 has already released "gradient"'):
        record(ledger, 3)
    record(ledger, 3, purpose="momentum")
    assert len(ledger) == 2


def test_groups_use_the_least_noise_and_the_highest_rate():
    ledger = Ledger()
    record(ledger, 0)
    assert count_losses(ledger.releases(), ALL) == {SampledLoss(Gaussian.loss, 0.2, 1 / 2.0): 1}
    assert count_losses(ledger.releases(), np.array([1])) == {SampledLoss(Gaussian.loss, 0.2, 1 / 3.0): 1}


def test_releases_of_one_draw_are_composed_before_they_are_amplified():
    ledger = Ledger()
    record(ledger, 0, multipliers=(2.0, 2.0))
    record(ledger, 0, "again", multipliers=(2.0, 2.0))
    (step,) = count_losses(ledger.releases(), ALL)
    assert step.rate == 0.2
    assert step.mu == pytest.approx(np.sqrt(2) / 2)


def test_equal_steps_are_counted():
    ledger = Ledger()
    for step in range(10):
        record(ledger, step, multipliers=(2.0, 2.0) if step < 7 else (1.0, 1.0))
    assert sorted(count_losses(ledger.releases(), ALL).values()) == [3, 7]


def test_an_epoch_of_a_permutation_counts_as_its_worst_draw():
    ledger = Ledger()
    sampling = Sampling("permutation", np.array([0.25, 0.25]), "replace-one")
    for step, noise in enumerate([5.0, 3.0, 4.0, 6.0, 2.0, 7.0]):
        record(ledger, step, multipliers=(noise, noise), sampling=sampling)
    losses = count_losses(ledger.releases(), ALL)
    assert {(loss.rate, loss.mu) for loss in losses} == {(1.0, 1 / 3.0), (1.0, 1 / 2.0)}


def test_releases_without_noise_are_not_private():
    ledger = Ledger()
    ledger.record(Release(0, "gradient", Exact(), POISSON))
    (step,) = count_losses(ledger.releases(), ALL)
    assert step.mu == math.inf


@pytest.mark.parametrize("mechanisms", [(Laplace, Laplace), (Laplace, Gaussian)])
def test_several_releases_per_draw_that_cannot_be_accounted_are_refused(mechanisms):
    ledger = Ledger()
    for purpose, mechanism in zip("ab", mechanisms, strict=True):
        record(ledger, 0, purpose, mechanism)
    with pytest.raises(TacitError, match="cannot be accounted together"):
        count_losses(ledger.releases(), ALL)


def test_values_that_are_never_released_are_reported(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open(0, "gradient")
    ledger.open(1, "gradient")
    record(ledger, 1)
    ledger.flush()
    assert Ledger(tmp_path / "ledger.sqlite").unreleased == [(0, "gradient")]
    ledger.close(0, "gradient")
    assert ledger.unreleased == []


def test_rewind_deletes_later_releases():
    ledger = Ledger()
    for step in range(5):
        record(ledger, step)
    ledger.open(4, "other")
    ledger.rewind(3)
    assert [line.step for line in ledger.releases()] == [0, 1, 2]
    assert ledger.steps == 3
    assert ledger.unreleased == []
    record(ledger, 3)


def test_a_repeated_release_must_be_the_one_from_before():
    """A restarted site draws the same noise again. With another scale or rate, it would be another release."""
    ledger = Ledger()
    for step in range(4):
        record(ledger, step)
    ledger.repeat(2)
    record(ledger, 2)
    with pytest.raises(TacitError, match='Step 2 has already released "gradient"; a second value'):
        record(ledger, 2)
    with pytest.raises(TacitError, match='Step 1 has already released "gradient"; a second value'):
        record(ledger, 1)
    others = (
        {"multipliers": (2.0, 3.1)},
        {"mechanism": Laplace},
        {"sampling": Sampling("poisson", np.array([0.1, 0.3]), "add-remove")},
    )
    for other in others:
        ledger.repeat(2)
        with pytest.raises(TacitError, match="with other noise or other sampling"):
            record(ledger, 3, **other)
    assert len(ledger) == 4


def test_rewinding_keeps_what_happened_before():
    ledger = Ledger()
    ledger.open(1, "gradient")
    ledger.values.note_read(1, "norm")
    ledger.values.note_local_use(1, "descent")
    ledger.rewind(2)
    assert (ledger.unreleased, ledger.values.read, ledger.values.local) == (
        [(1, "gradient")],
        {"norm": 1},
        {"descent": 1},
    )


def test_a_file_that_is_not_a_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"this is not a database, and it is long enough to be looked at" * 20)
    with pytest.raises(TacitError, match=r"ledger .*ledger\.sqlite cannot be"):
        Ledger(path)


FULL = Sampling("none", np.ones(2), "add-remove")


def test_different_draws_of_one_step_are_accounted_separately():
    """A Poisson gradient and a histogram of all records: the histogram is not amplified by sampling."""
    ledger = Ledger()
    for step in range(3):
        record(ledger, step)
        record(ledger, step, purpose="histogram", multipliers=(1.0, 1.0), sampling=FULL)
    together, apart = guarantee(ledger.releases(), 1e-5), Ledger()
    for step in range(3):
        record(apart, 2 * step)
        record(apart, 2 * step + 1, multipliers=(1.0, 1.0), sampling=FULL)
    assert np.array_equal(together, guarantee(apart.releases(), 1e-5))
    histograms = [release for release in ledger.releases() if release.purpose == "histogram"]
    assert (together > guarantee(histograms, 1e-5)).all()


def test_two_random_draws_of_one_step_are_refused():
    """Both may be drawn from the same random numbers, so that they are not independent."""
    ledger = Ledger()
    record(ledger, 0)
    record(ledger, 0, purpose="other", sampling=Sampling("poisson", np.array([0.1, 0.3]), "add-remove"))
    with pytest.raises(TacitError, match="several different draws of records"):
        guarantee(ledger.releases(), 1e-5)


def test_epochs_are_grouped_beside_releases_from_all_records():
    replaced = Sampling("none", np.ones(1), "replace-one")
    shuffled = Sampling("permutation", np.array([0.5]), "replace-one")
    lines = []
    for step in range(4):
        lines += [Release(step, "gradient", Gaussian(2.0), shuffled), Release(step, "mean", Gaussian(3.0), replaced)]
    counts = count_losses(lines, np.zeros(1, np.intp))
    assert {loss.mu: count for loss, count in counts.items()} == {1 / 2.0: 2, 1 / 3.0: 4}


def test_nodes_with_epochs_of_different_lengths_are_never_grouped():
    """The first release has the same rate at all nodes; a later one has not, and no rate dominates the other."""
    replaced = Sampling("none", np.ones(2), "replace-one")
    shuffled = Sampling("permutation", np.array([1.0, 0.25]), "replace-one")
    lines = [Release(0, "mean", Gaussian(5.0), replaced)]
    lines += [Release(step, "gradient", Gaussian(2.0), shuffled) for step in range(1, 9)]
    each = [guarantee([line.for_rows(np.array([node])) for line in lines], 1e-5)[0] for node in range(2)]
    assert guarantee(lines, 1e-5).tolist() == each
    assert each[0] > 1.5 * each[1]


@pytest.mark.parametrize(
    "other",
    [
        Release(1, "gradient", Gaussian(2.0), Sampling("poisson", np.array([0.1, 0.2]), "replace-one")),
        Release(1, "gradient", Gaussian(2.0), POISSON, unit="node"),
    ],
)
def test_a_second_relation_or_unit_is_refused_when_it_is_recorded(tmp_path, other):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    record(ledger, 0)
    with pytest.raises(TacitError, match="one relation and one unit for a run"):
        ledger.record(other)
    ledger.flush()
    again = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(TacitError, match="one relation and one unit for a run"):
        again.record(other)
    assert [release.unit for release in again.releases()] == ["record"]


def test_what_happened_to_exact_values_survives_a_restart(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open(4, "gradient")
    ledger.values.note_read(2, "norm")
    ledger.values.note_local_use(3, "descent")
    ledger.values.note_local_use(1, "descent")
    ledger.flush()
    again = Ledger(tmp_path / "ledger.sqlite")
    assert again.unreleased == [(4, "gradient")]
    assert (again.values.read, again.values.local) == ({"norm": 2}, {"descent": 1})
    again.rewind(2)
    assert (again.unreleased, again.values.read, again.values.local) == ([], {}, {"descent": 1})
