"""Observers of a run, and its progress bar in a terminal, in a notebook and in a file."""

import io
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from rich.console import Console

import tacit
from tacit.runs import ProgressBar
from tests.api.cases import quick


def test_a_function_is_called_after_every_evaluation():
    rows = []
    run = quick(observers=[lambda run, row: rows.append((run.t, row["round"]))], evaluate_every=2)
    assert rows == [(0, 0), (2, 2), (3, 3)]
    assert len(run.history) == 3


@pytest.mark.parametrize(
    ("observers", "words"),
    [
        ([lambda run: None], r"the observer <lambda> must accept \(run, row\)"),
        ([tacit.Observer], r"an observer is the class Observer: pass an instance, Observer\(\)"),
        ([3], r"an observer must be a tacit.Observer or a function of \(run, row\), got int"),
        (tacit.Observer(), r"observers must be a list, got Observer: write observers=\[...\]"),
        (print, r"observers must be a list, got builtin_function_or_method"),
    ],
)
def test_other_observers_are_refused(observers, words):
    with pytest.raises(tacit.TacitError, match=words):
        quick(observers=observers)


def bar_on(**options):
    """The text of a run's progress bar on such a console."""
    console = Console(file=io.StringIO(), width=160, **options)
    quick(observers=[ProgressBar(console)])
    return console.file.getvalue()


def test_bar_in_a_terminal():
    shown = bar_on(force_terminal=True, force_jupyter=False)
    assert "3/3" in shown
    assert "\r" in shown


def test_lines_without_a_terminal():
    shown = bar_on(force_terminal=False, force_jupyter=False)
    assert [line.partition("  ")[0] for line in shown.splitlines()] == [f"round {t} of 3" for t in (1, 2, 3)]


class Output:
    """A widget with what Rich calls."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def clear_output(self, wait):
        pass


def notebook(monkeypatch, *, widgets):
    """Stand-ins for IPython and ipywidgets; return what they display."""
    shown = []
    display = ModuleType("IPython.display")
    display.display = shown.append
    modules = {"IPython": ModuleType("IPython"), "IPython.display": display}
    if widgets:
        modules["ipywidgets"] = ModuleType("ipywidgets")
        modules["ipywidgets"].__spec__ = ModuleSpec("ipywidgets", None)
        modules["ipywidgets"].Output = Output
    else:
        monkeypatch.setattr("tacit.runs.progress.find_spec", lambda name: None)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return shown


def texts(shown):
    plain = [each._repr_mimebundle_((), ())["text/plain"] for each in shown if not isinstance(each, Output)]
    return [text for text in plain if text.strip()]


def test_bar_in_a_notebook_is_a_widget(monkeypatch):
    shown = notebook(monkeypatch, widgets=True)
    bar_on(force_jupyter=True)
    assert sum(isinstance(each, Output) for each in shown) == 1
    assert "3/3" in texts(shown)[-1]
    assert "guaranteed (simulated) ε" in texts(shown)[-1]


def test_lines_in_a_notebook_without_widgets(monkeypatch):
    shown = notebook(monkeypatch, widgets=False)
    bar_on(force_jupyter=True)
    assert [text.partition("  ")[0] for text in texts(shown)] == [f"round {t} of 3" for t in (1, 2, 3)]
