"""Tacit: differentially private decentralised learning, with privacy that is told truthfully."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.algorithms import Algorithm
    from tacit.errors import BudgetExceeded, TacitError
    from tacit.graphs import Graph
    from tacit.networks import Network
    from tacit.privacy.bounded import Bounded
    from tacit.privacy.mechanism import Exact, Gaussian, Laplace
    from tacit.privacy.statement import Privacy
    from tacit.runs import Config, Run, train
    from tacit.tasks import Clip, Dataset, Model, Task, datasets, models, shards

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Bounded",
    "BudgetExceeded",
    "Clip",
    "Config",
    "Dataset",
    "Exact",
    "Gaussian",
    "Graph",
    "Laplace",
    "Model",
    "Network",
    "Privacy",
    "Run",
    "TacitError",
    "Task",
    "datasets",
    "models",
    "shards",
    "train",
]

_HOMES = {
    "algorithms": ("Algorithm",),
    "errors": ("BudgetExceeded", "TacitError"),
    "graphs": ("Graph",),
    "networks": ("Network",),
    "privacy.bounded": ("Bounded",),
    "privacy.mechanism": ("Exact", "Gaussian", "Laplace"),
    "privacy.statement": ("Privacy",),
    "runs": ("Config", "Run", "train"),
    "tasks": ("Clip", "Dataset", "Model", "Task", "datasets", "models", "shards"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are asked for: torch takes seconds, and not every command needs it."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tacit.{home}"), name)
    if name in _HOMES:
        return import_module(f"tacit.{name}")
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
