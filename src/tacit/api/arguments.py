"""Checks of the arguments of `tacit.train` that are objects: one sentence for what is often passed by mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.modules.loss import _Loss
from torch.optim import Optimizer

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.runs import Observer, ProgressBar, Row
from tacit.tasks import Head, Model

if TYPE_CHECKING:
    from tacit.runs import Run

OPTIMISER = "the algorithm takes the optimiser's steps: remove the optimiser, and set algorithm= and lr="
EvaluationCallback = Callable[["Run", Row], None]


def check_objects(model: object, task: object, algorithm: object, graph: object) -> None:
    """Raise TacitError if a part of the run is neither a name nor an object of the right kind."""
    _check_model(model)
    _check("task", task, Head, "a name or a tacit.Head", "task= takes no loss function")
    _check("algorithm", algorithm, Algorithm | None, "a name or a tacit.Algorithm")
    if not (isinstance(graph, str | Graph) or _is_networkx(graph)):
        raise TacitError(f"graph must be a name, a tacit.Graph or a networkx graph, got {kind(graph)}")


def _check_model(model: object) -> None:
    _check("model", model, nn.Module | Model, "a name, a torch.nn.Module or a tacit.Model")
    if isinstance(model, _Loss):
        raise TacitError(
            f"model is a loss ({type(model).__name__}): pass the module that computes the outputs; task= sets the loss"
        )


def _check(argument: str, given: object, accepted: Any, forms: str, note: str = "") -> None:
    refuse_optimiser(argument, given)
    if isinstance(given, type):
        raise TacitError(f"{argument} is the class {given.__name__}: pass an instance, {given.__name__}(...)")
    if not isinstance(given, str) and not isinstance(given, accepted):
        raise TacitError(f"{argument} must be {forms}, got {kind(given)}{f'; {note}' if note else ''}")


def refuse_optimiser(argument: str, given: object) -> None:
    """Raise TacitError if an argument is an optimiser of torch, or a class of one."""
    made = given if isinstance(given, type) else type(given)
    if issubclass(made, Optimizer):
        raise TacitError(f"{argument} is an optimiser ({made.__name__}), but {OPTIMISER}")


def kind(given: object) -> str:
    """What was given, for an error: the name of its type, and never its content."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def _is_networkx(graph: object) -> bool:
    """Whether this is a networkx graph. Networkx need not be imported to know."""
    return any(base.__module__.split(".")[0] == "networkx" for base in type(graph).__mro__)


def adapt_observers(observers: Sequence[Observer | EvaluationCallback], progress: bool) -> list[Observer]:
    """Return the observers of a run: a progress bar, the report, and the user's observers and functions.

    Raises:
        TacitError: One of them is neither an observer nor a function of (run, row).
    """
    from tacit.reports import ReportPage  # slow to import, and only a run needs it

    if isinstance(observers, Observer) or not isinstance(observers, Sequence):
        raise TacitError(f"observers must be a list, got {kind(observers)}: write observers=[...]")
    return [*([ProgressBar()] if progress else []), ReportPage(), *map(_observer, observers)]


def _observer(given: object) -> Observer:
    if isinstance(given, Observer):
        return given
    refuse_optimiser("an observer", given)
    if isinstance(given, type):
        raise TacitError(f"an observer is the class {given.__name__}: pass an instance, {given.__name__}()")
    if not callable(given):
        raise TacitError(f"an observer must be a tacit.Observer or a function of (run, row), got {kind(given)}")
    return FunctionObserver(given)


class FunctionObserver(Observer):
    """Calls a function of (run, row) after every evaluation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        try:
            inspect.signature(function).bind(None, None)
        except TypeError:
            raise TacitError(
                f"the observer {name} must accept (run, row), which it gets after every evaluation; for other events, "
                "derive a class from tacit.Observer"
            ) from None
        except ValueError:
            pass  # a built-in function without a signature
        self._function = function

    def on_evaluation(self, run: Run, row: Row) -> None:
        self._function(run, row)
