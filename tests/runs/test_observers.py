"""A run notifies its observers, in their order, and writes no files itself."""

import pytest

from tacit.errors import TacitError
from tacit.runs import Observer
from tests.runs.cases import interrupt_after, small


class Recorder(Observer):
    def __init__(self):
        self.calls = []

    def on_start(self, run):
        self.calls.append(("start", run.t))

    def on_round(self, run):
        self.calls.append(("round", run.t))

    def on_evaluation(self, run, row):
        assert row is run.evaluations[-1]
        self.calls.append(("evaluation", run.t))

    def on_finish(self, run):
        self.calls.append(("finish", run.stopped))


class Failing(Observer):
    def __init__(self, method):
        setattr(self, method, self._fail)

    def _fail(self, run, row=None):
        raise TacitError("the observer failed")


def test_every_event_is_notified_in_order():
    recorder = Recorder()
    small(rounds=3, evaluate_every=2, observers=[recorder]).go()
    assert recorder.calls == [
        ("start", 0),
        ("evaluation", 0),
        ("round", 1),
        ("evaluation", 2),
        ("round", 2),
        ("evaluation", 3),
        ("round", 3),
        ("finish", None),
    ]


def test_run_without_a_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert small(rounds=2).go().out is None
    assert list(tmp_path.iterdir()) == []


def test_interrupt_by_an_observer_is_a_clean_end():
    recorder = Recorder()
    run = small(observers=[interrupt_after(4), recorder]).go()
    assert (run.t, run.interrupted) == (4, True)
    assert recorder.calls[-1] == ("finish", "stopped by hand after 4 of 12 rounds")


@pytest.mark.parametrize("method", ["on_start", "on_round", "on_evaluation", "on_finish"])
def test_failing_observer_ends_the_run_and_the_others_are_notified(method, tmp_path):
    recorder = Recorder()
    run = small(observers=[Failing(method), recorder], out=tmp_path / "run")
    with pytest.raises(TacitError, match="the observer failed"):
        run.go()
    assert recorder.calls[-1][0] == "finish"
    assert (tmp_path / "run/result.json").is_file()
