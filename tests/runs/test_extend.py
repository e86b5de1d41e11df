"""Extended runs: more rounds with the same noise, schedules and budget."""

import pytest

import tacit
from tacit.errors import TacitError
from tacit.privacy import Ledger, guarantee
from tests.runs.cases import SMALL, assert_same, interrupt_after, lines, small

LISTED = {"name": "d2p", "clip": [1.0] * 14, "noise_multiplier": [2.0] * 14}


def test_extended_run_continues_the_schedule_of_the_original_rounds(tmp_path):
    small(out=tmp_path / "run").go()
    run = small(out=tmp_path / "run", resume=True, extend=5)
    assert (run.t, run.rounds, run.algorithm.rounds) == (12, 17, 12)
    run.go()
    assert (run.t, run.stopped) == (17, None)
    multipliers = [line.multipliers[0] for line in run.task.ledger.releases()]
    assert multipliers == pytest.approx([1.5 * 0.5 ** (t / 12) for t in range(17)])
    assert [row["round"] for row in run.evaluations] == [0, 5, 10, 12, 15, 17]
    assert run.privacy.guaranteed == float(guarantee(run.task.ledger.releases(), 1e-4).max())


def test_extension_is_recorded_and_can_be_interrupted_resumed_and_repeated(tmp_path):
    small(out=tmp_path / "one").go()
    small(out=tmp_path / "one", resume=True, extend=4).go()
    whole = small(out=tmp_path / "one", resume=True, extend=3).go()
    small(out=tmp_path / "two", observers=[interrupt_after(7)]).go()
    small(out=tmp_path / "two", resume=True, extend=7, observers=[interrupt_after(14)]).go()
    resumed = small(out=tmp_path / "two", resume=True)
    assert (resumed.t, resumed.rounds) == (14, 19)
    resumed.go()
    assert resumed.models.equal(whole.models)
    assert lines(resumed) == lines(whole)
    assert [each["rounds"] for each in Ledger(tmp_path / "one/ledger.sqlite").facts.read()["extensions"]] == [4, 3]


def test_budget_ends_an_extended_run_with_its_reason(tmp_path):
    target = {"algorithm": {"name": "const-d2p"}, "privacy": {"epsilon": 2.0, "delta": 1e-4}}
    small(**target, out=tmp_path / "run").go()
    run = small(**target, out=tmp_path / "run", resume=True, extend=50).go()
    assert run.t == 12
    assert run.stopped.startswith("The privacy budget ε = 2, δ = 0.0001 ends before step 12")
    assert run.privacy.guaranteed <= 2.0
    again = small(**target, out=tmp_path / "run", resume=True).go()
    assert_same(again, run)


def test_budget_above_the_target_leaves_rounds_to_extend(tmp_path):
    target = {"algorithm": {"name": "const-d2p"}, "privacy": {"epsilon": 2.0, "budget": 3.0, "delta": 1e-4}}
    small(**target, out=tmp_path / "run").go()
    run = small(**target, out=tmp_path / "run", resume=True, extend=500).go()
    assert 12 < run.t < 512
    assert "The privacy budget ε = 3" in run.stopped
    assert 2.7 < run.privacy.guaranteed <= 3.0


def test_lists_that_are_too_short_are_refused(tmp_path):
    changes = {"algorithm": LISTED}
    small(**changes, out=tmp_path / "run").go()
    assert small(**changes, out=tmp_path / "run", resume=True, extend=2).go().t == 14
    with pytest.raises(TacitError, match=r"algorithm.clip has 14 values, so the run cannot be extended to 15 rounds"):
        small(**changes, out=tmp_path / "run", resume=True, extend=1)
    assert small(**changes, out=tmp_path / "run", resume=True).rounds == 14, "a refused extension is not recorded"
    with pytest.raises(TacitError, match="the schedule has 3 values for 4 rounds"):
        tacit.algorithms.Listed([1.0] * 3)(3, 3)


def test_tabulated_sensitivity_is_not_extended_beyond_its_table(tmp_path):
    """After the last tabulated round, contributions of earlier rounds would be missing from the bound."""
    sgpdp = {"name": "sgpdp", "noise_rate": 0.01, "clip": 0.01, "sensitivity": "certified"}
    for sync_every, refused in {0: True, 20: True, 4: False, 3: False}.items():
        changes = {"algorithm": sgpdp | {"sync_every": sync_every}, "rounds": 4}
        folder = tmp_path / str(sync_every)
        small(**changes, out=folder).go()
        if refused:
            with pytest.raises(TacitError, match="tabulated for 4 rounds, so the run cannot be extended to 6"):
                small(**changes, out=folder, resume=True, extend=2)
        else:
            assert small(**changes, out=folder, resume=True, extend=2).go().t == 6


def test_extend_needs_a_run_to_continue(tmp_path):
    with pytest.raises(TacitError, match="extend = 3 continues a run"):
        small(out=tmp_path / "new", extend=3)
    assert not (tmp_path / "new").exists()
    given = {"algorithm": tacit.algorithms.const_d2p(noise_multiplier=1.0), "nodes": 4, "rounds": 3, "batch": 8}
    tacit.train(**given, out=tmp_path / "run")
    assert tacit.train(**given, out=tmp_path / "run", resume=True, extend=2).t == 5
    assert SMALL["rounds"] == 12
