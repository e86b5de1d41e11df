"""The records ledger: runs on the same records are added up, whatever happens to them."""

import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy import (
    Budget,
    Exact,
    Gaussian,
    Ledger,
    Noise,
    Paired,
    Privacy,
    RecordsLedger,
    Release,
    Reservation,
    Sampling,
    epsilon,
    joint_epsilon,
    solve_pairs,
)

DELTA = 1e-5
RECORDS = [np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, 0])]
OTHERS = [RECORDS[0] + 1, RECORDS[1]]


def plan(
    noise=1.0, steps=20, *, kind="poisson", relation="add-remove", rates=(0.1,), unit="record", purpose="gradient"
):
    drawn = Sampling(kind, np.array(rates), relation)
    mechanism = Gaussian(np.broadcast_to(np.asarray(noise, float), (len(rates),)))
    return [Release(t, purpose, mechanism, drawn, unit) for t in range(steps)]


class SecretRun:
    """A run with its own noise key, whose ledger has a reservation."""

    def __init__(self, planned, records=RECORDS, *, noise=None, ledger=None, delta=DELTA, **options):
        self.noise, self.planned = noise or Noise.from_system(), planned
        self.ledger = Ledger() if ledger is None else ledger
        self.reservation = Reservation(self.noise, np.arange(1), records, planned, title="test", delta=delta, **options)
        self.ledger.reservation = self.reservation

    def check(self):
        self.reservation.check(self.ledger)

    def release(self, lines=None):
        for line in self.planned if lines is None else lines:
            self.ledger.record(line)
        return self

    def end(self, reason=None):
        self.reservation.end(list(self.ledger.releases()), reason)
        return self

    @property
    def privacy(self):
        return self.reservation.stated(Privacy(epsilon(self.ledger.releases(), DELTA), None, DELTA))


def finished(planned, records=RECORDS, **options):
    return SecretRun(planned, records, **options).release().end()


def test_two_runs_have_one_total():
    one, other = plan(), plan(0.8, 30)
    first, second = finished(one).privacy, finished(other).privacy
    assert (first.runs, second.runs) == (1, 2)
    assert first.total == first.guaranteed
    assert second.total == joint_epsilon([one, other], DELTA)
    assert max(first.guaranteed, second.guaranteed) < second.total < first.guaranteed + second.guaranteed
    assert "All 2 runs on these records: ε = " in second.sentence()


def test_the_total_agrees_with_another_accountant():
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    one, other = finished(plan()), finished(plan(0.8, 30, rates=(0.05,)))
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    for run in (one, other):
        accountant.compose(run.ledger.to_dp_events()[0])
    assert other.privacy.total == pytest.approx(accountant.get_epsilon(DELTA), rel=0.01)


def test_nothing_is_stated_before_the_end():
    run = SecretRun(plan()).release()
    assert (run.privacy.runs, run.privacy.total, run.privacy.total_sentence) == (0, None, "")


def test_other_records_are_not_added():
    finished(plan())
    assert finished(plan(), OTHERS).privacy.runs == 1
    assert finished(plan(), population="ward-7", records=[RECORDS[0][:2]]).privacy.runs == 1


def test_runs_on_a_declared_population_are_added_although_its_records_change():
    finished(plan(), population="ward-7")
    assert finished(plan(), OTHERS, population="ward-7").privacy.runs == 2


def test_leaving_out_the_population_forgets_no_run():
    finished(plan(), population="ward-7")
    finished(plan(), OTHERS, population="ward-7")
    assert finished(plan()).privacy.runs == 3


def test_a_population_declared_later_takes_the_earlier_runs():
    finished(plan())
    finished(plan(), OTHERS)
    assert finished(plan(), population="ward-7").privacy.runs == 2
    assert finished(plan(), OTHERS, population="ward-7").privacy.runs == 4


def test_a_second_name_for_the_same_records_is_refused():
    finished(plan(), population="ward-7")
    with pytest.raises(TacitError, match='belong to the population "ward-7"'):
        SecretRun(plan(), population="ward-8").check()


@pytest.mark.parametrize("name", ["", " ", "#1"])
def test_names_that_could_be_numbers_are_refused(name):
    with pytest.raises(TacitError, match="must not be empty or begin with #"):
        SecretRun(plan(), population=name).check()


def test_a_crashed_run_counts_in_full():
    """It has released two of twenty values. No one knows whether the others left too."""
    crashed = SecretRun(plan())
    crashed.release(crashed.planned[:2])
    after = finished(plan(0.8)).privacy
    assert after.total == joint_epsilon([plan(), plan(0.8)], DELTA)


def test_a_run_that_stops_early_counts_what_it_released():
    stopped = SecretRun(plan())
    stopped.release(stopped.planned[:2]).end()
    assert finished(plan(0.8)).privacy.total == joint_epsilon([plan()[:2], plan(0.8)], DELTA)


def test_the_plan_is_on_disk_before_the_first_value_is_computed():
    run = SecretRun(plan(), population="ward-7")
    with pytest.raises(TacitError, match="has no runs"):
        RecordsLedger().find("ward-7")
    run.ledger.open(0, "gradient")
    (recorded,) = RecordsLedger().find("ward-7")[1]
    assert (recorded.ended, len(recorded.releases)) == (False, 20)


def test_a_killed_process_leaves_its_reservation(tmp_path):
    script = (
        "import os, sys; sys.path.insert(0, os.getcwd())\n"
        "from tests.privacy.test_records_ledger import SecretRun, plan\n"
        "run = SecretRun(plan()); run.release(run.planned[:1]); os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 9
    assert finished(plan(0.8)).privacy.total == joint_epsilon([plan(), plan(0.8)], DELTA)


def test_a_run_without_a_plan_has_no_total_until_it_ends():
    unplanned = SecretRun([]).release(plan())
    during = finished(plan(0.8)).privacy
    assert (during.total, during.runs) == (None, 2)
    assert "plans no releases" in during.total_reason
    assert unplanned.end().privacy.total == joint_epsilon([plan(), plan(0.8)], DELTA)


@pytest.mark.parametrize(
    "unplanned", [plan(0.5)[0], plan(rates=(0.2,))[0], plan(purpose="other")[0], plan(steps=30)[29]], ids=str
)
def test_a_release_that_was_not_planned_makes_the_total_unknown_until_the_end(unplanned):
    run = SecretRun(plan())
    run.release([unplanned])
    assert finished(plan(0.8)).privacy.total is None
    assert run.end().privacy.total == joint_epsilon([[unplanned], plan(0.8)], DELTA)


@pytest.mark.parametrize(("stays", "known"), [(True, True), (False, False)])
def test_an_exact_value_that_may_leave_makes_the_total_unknown(stays, known):
    run = SecretRun(plan(), exact_values_stay_local=stays)
    run.ledger.open(0, "gradient")
    run.ledger.values.note_local_use(0, "gradient")
    assert (finished(plan(0.8)).privacy.total is not None) == known
    run.ledger.values.note_read(1, "gradient")
    assert finished(plan(0.8)).privacy.total is None


def test_a_run_without_a_guarantee_leaves_no_total():
    SecretRun(plan()).release().end("a value was read before its release")
    after = finished(plan(0.8)).privacy
    assert after.total is None
    assert after.total_sentence == (
        "All 2 runs on these records: no total is guaranteed, because a value was read before its release."
    )


def test_releases_without_noise_leave_no_total():
    exact = [replace(line, mechanism=Exact()) for line in plan()]
    finished(exact)
    assert finished(plan()).privacy.total_reason == "values leave the nodes without noise"


@pytest.mark.parametrize(
    "other", [plan(kind="permutation", relation="replace-one"), plan(unit="node")], ids=["relation", "unit"]
)
def test_different_relations_or_units_have_no_total(other):
    finished(plan())
    privacy = finished(other).privacy
    assert privacy.total is None
    assert privacy.total_reason.startswith("the runs protect different things (")
    with pytest.raises(BudgetExceeded, match="no total can be guaranteed"):
        SecretRun(plan(), budget=100.0).check()


def test_nodes_of_different_sizes_are_bounded_for_every_choice():
    uneven = plan([2.0, 1.0, 1.5, 1.2, 3.0], rates=(0.2, 0.1, 0.15, 0.12, 0.25))
    finished(uneven)
    total = finished(uneven).privacy.total
    for node in range(5):
        own = [line.for_rows(np.array([node])) for line in uneven]
        assert joint_epsilon([own, own], DELTA) <= total


def test_a_budget_refuses_a_run_and_keeps_nothing_of_it():
    one = epsilon(plan(), DELTA)
    limit = joint_epsilon([plan(), plan()], DELTA) * 1.0001
    for _ in range(2):
        finished(plan(), population="ward-7", budget=limit)
    third = SecretRun(plan(), population="ward-7", budget=limit)
    with pytest.raises(BudgetExceeded) as refusal:
        third.check()
    assert str(refusal.value).startswith("These records have a budget of ε = ")
    assert "2 runs spent " in str(refusal.value)
    assert f"this run plans {one:.3f}"[:20] in str(refusal.value)
    with pytest.raises(BudgetExceeded):
        third.release()
    assert len(third.ledger) == 0
    assert len(RecordsLedger().find("ward-7")[1]) == 2
    assert finished(plan(50.0, 1), population="ward-7").privacy.runs == 3, "a small run still fits"


def test_a_recorded_budget_holds_for_runs_that_state_none():
    finished(plan(), population="ward-7", budget=1.1 * epsilon(plan(), DELTA))
    with pytest.raises(BudgetExceeded, match="The run is refused"):
        SecretRun(plan()).check()


def test_a_run_cannot_raise_the_budget():
    finished(plan(50.0), population="ward-7", budget=2.0)
    with pytest.raises(TacitError, match=r'A run cannot raise it; .* tacit budget "ward-7" --epsilon 3 --delta 1e-05'):
        SecretRun(plan(), budget=3.0).check()
    with pytest.raises(TacitError, match="A run cannot raise it"):
        SecretRun(plan(), budget=2.0, delta=1e-4).check()
    finished(plan(50.0), population="ward-7", budget=1.0)
    assert RecordsLedger().find("ward-7")[2].epsilon == 1.0, "a run can lower it"
    RecordsLedger().set_budget(RecordsLedger().find("ward-7")[0], Budget(3.0, DELTA))
    SecretRun(plan(50.0), budget=3.0).check()


def test_a_budget_refuses_a_run_without_a_plan():
    with pytest.raises(BudgetExceeded, match="this run plans an unknown ε"):
        SecretRun([], budget=9.0).check()


def test_a_resumed_run_counts_once(tmp_path):
    key = Noise.from_key(bytes(32))
    path = tmp_path / "ledger.sqlite"
    first = SecretRun(plan(), noise=key, ledger=Ledger(path, durable=True))
    first.release(plan()[:5])
    again = SecretRun(plan(), noise=Noise.from_key(bytes(32)), ledger=Ledger(path, durable=True))
    again.ledger.repeat(3)
    again.release(plan()[3:]).end()
    assert (again.privacy.runs, again.privacy.total) == (1, epsilon(plan(), DELTA))
    other_key = finished(plan(), noise=Noise.from_key(bytes([1] * 32)))
    assert other_key.privacy.runs == 2


def test_a_run_that_left_its_plan_and_crashed_stays_unknown_when_it_resumes(tmp_path):
    path, extra = tmp_path / "ledger.sqlite", plan(0.5, purpose="extra")[0]
    SecretRun(plan(), noise=Noise.from_key(bytes(32)), ledger=Ledger(path, durable=True)).release([extra])
    again = SecretRun(plan(), noise=Noise.from_key(bytes(32)), ledger=Ledger(path, durable=True))
    again.release(plan()[:1])
    assert finished(plan(0.8)).privacy.total is None
    again.end()
    assert finished(plan(0.8)).privacy.total is not None


def test_a_run_that_was_killed_before_its_end_and_has_nothing_more_to_release_ends_when_it_resumes(tmp_path):
    path = tmp_path / "ledger.sqlite"
    SecretRun(plan(), noise=Noise.from_key(bytes(32)), ledger=Ledger(path, durable=True)).release(plan()[:5])
    again = SecretRun(plan(), noise=Noise.from_key(bytes(32)), ledger=Ledger(path, durable=True)).end()
    assert (again.privacy.runs, again.privacy.total) == (1, epsilon(plan()[:5], DELTA))


def test_the_same_noise_with_another_ledger_is_refused():
    """An outdated copy of a state folder, or a second run with the same key, would replace the entry of the first."""
    finished(plan(), noise=Noise.from_key(bytes(32)))
    again = SecretRun(plan(0.8), noise=Noise.from_key(bytes(32)))
    with pytest.raises(TacitError, match="releases of this run that are missing in the run's own ledger"):
        again.check()
    with pytest.raises(TacitError, match="another run has used the same noise"):
        again.release()
    assert len(again.ledger) == 0


def test_the_reason_why_a_run_guarantees_nothing_is_kept_when_it_resumes():
    run = SecretRun(plan()).release(plan()[:1]).end("a value was read before its release")
    run.release(plan()[1:2])
    assert finished(plan()).privacy.total_reason == "a value was read before its release"


def test_processes_that_share_a_key_and_host_other_nodes_all_count():
    noise = Noise.from_key(bytes(32))
    for node in range(3):
        ledger = Ledger()
        ledger.reservation = Reservation(noise, np.array([node]), RECORDS, plan(), title="test", delta=DELTA)
        for line in plan():
            ledger.record(line)
    assert finished(plan()).privacy.runs == 4


def test_a_run_that_releases_nothing_is_not_recorded():
    assert SecretRun(plan()).end().privacy.runs == 0
    assert finished(plan()).privacy.runs == 1


def test_a_run_that_continues_after_its_end_is_reserved_again():
    run = SecretRun(plan(), population="ward-7")
    run.release(plan()[:5]).end()
    run.release(plan()[5:6])
    (recorded,) = RecordsLedger().find("ward-7")[1]
    assert (recorded.ended, len(recorded.releases)) == (False, 20)


def test_concurrent_runs_all_count():
    barrier, failed = threading.Barrier(6), []

    def go():
        try:
            run = SecretRun(plan())
            barrier.wait()
            run.release().end()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert finished(plan()).privacy.runs == 7


def test_concurrent_runs_cannot_exceed_a_budget_together():
    limit = 1.1 * epsilon(plan(), DELTA)
    barrier, admitted = threading.Barrier(4), []

    def go():
        run = SecretRun(plan(), budget=limit)
        run.check()
        barrier.wait()
        try:
            admitted.append(run.release())
        except BudgetExceeded:
            assert len(run.ledger) == 0

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 1


def test_the_file_reveals_no_digest_of_the_records_that_others_can_compute(tmp_path):
    """Digests are keyed with a secret of the file, which only its owner can read."""
    finished(plan())
    here, elsewhere = RecordsLedger(), RecordsLedger(tmp_path / "elsewhere")
    assert here.digest(RECORDS) == RecordsLedger().digest(RECORDS) != elsewhere.digest(RECORDS)
    assert here.digest(RECORDS) != here.digest(OTHERS)
    assert stat.S_IMODE(here.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(here.path.parent.stat().st_mode) == 0o700


def test_a_ledger_that_cannot_be_written_refuses_the_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "file"))
    with pytest.raises(TacitError, match=r"The records ledger .* cannot be used: .* set TACIT_STATE to a folder"):
        SecretRun(plan())


def test_a_damaged_ledger_refuses_the_run():
    finished(plan())
    RecordsLedger().path.write_bytes(b"not a database" * 100)
    with pytest.raises(TacitError, match="cannot be used: file is not a database"):
        SecretRun(plan())


def test_the_folder_is_that_of_the_environment_or_of_the_user(monkeypatch, tmp_path):
    assert RecordsLedger().path.parent == type(tmp_path)(os.environ["TACIT_STATE"])
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", None):
        monkeypatch.delenv("TACIT_STATE") if value is None else monkeypatch.setenv("TACIT_STATE", value)
        assert RecordsLedger().path == tmp_path / ".local/state/tacit/records/records.sqlite"


def test_the_id_of_a_run_does_not_reveal_its_noise_key():
    noise = Noise.from_key(bytes(range(32)))
    assert noise.fingerprint == Noise.from_key(bytes(range(32))).fingerprint
    assert noise.fingerprint != Noise.from_key(bytes(32)).fingerprint
    assert bytes(range(32)).hex() not in noise.fingerprint


def paired_plan(colluders, *, nodes=6):
    edges = np.array([(a, b) for b in range(nodes) for a in range(b)])
    pairs = solve_pairs(np.full(nodes, 3.0), np.ones(nodes), edges, colluders, 3.0)
    drawn = Sampling("none", np.ones(nodes), "add-remove")
    return pairs, [Release(t, "gradient", Paired(pairs, np.arange(nodes)), drawn) for t in range(4)]


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_the_total_of_paired_noise_holds_against_the_colluders_of_every_run(order):
    """The colluders of one run have kept its messages, and so have those of the other."""
    plans = [paired_plan(colluders) for colluders in order]
    for _, lines in plans:
        run = SecretRun(lines).release()
        run.end()
    total = RecordsLedger().total(run.reservation._run, DELTA)
    exact = [[replace(line, mechanism=Gaussian(pairs.multipliers(2))) for line in lines] for pairs, lines in plans]
    assert total.epsilon == pytest.approx(joint_epsilon(exact, DELTA))
    assert total.epsilon > 1.1 * joint_epsilon([lines for _, lines in plans], DELTA)
    assert total.colluders == 2
    assert run.reservation.stated(Privacy(1.0, None, DELTA)).total == total.epsilon


def test_a_budget_counts_earlier_runs_against_the_colluders_of_a_new_one():
    (_, few), (_, more) = paired_plan(0), paired_plan(4)
    both = joint_epsilon([few, more], DELTA)
    SecretRun(few, budget=1.1 * both).release().end()
    with pytest.raises(BudgetExceeded):
        SecretRun(more, budget=1.1 * both).release()
