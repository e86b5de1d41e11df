"""Tacit: differentially private decentralised learning, with a privacy accountant that reports upper bounds.

>>> import tacit
>>> run = tacit.train(nodes=4, rounds=5, epsilon=2.0, delta=1e-3)
>>> run.privacy.guaranteed <= 2.0
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.version import __version__

if TYPE_CHECKING:
    from tacit import claims, tables, trackers
    from tacit.algorithms import Algorithm
    from tacit.api import train
    from tacit.comparison_api import compare
    from tacit.comparisons import plot_comparison
    from tacit.errors import BudgetExceeded, TacitError
    from tacit.estimators import PrivacyAccount, TacitClassifier, TacitRegressor
    from tacit.graphs import Graph
    from tacit.networks import Network
    from tacit.privacy import Bounded, Exact, Gaussian, Laplace, Privacy
    from tacit.runs import Config, Observer, Run, load, verify
    from tacit.sweeps import sweep
    from tacit.tasks import Clip, Dataset, Head, Model, Target, Task, datasets, heads, models, shards

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
    "Head",
    "Laplace",
    "Model",
    "Network",
    "Observer",
    "Privacy",
    "PrivacyAccount",
    "Run",
    "TacitClassifier",
    "TacitError",
    "TacitRegressor",
    "Target",
    "Task",
    "__version__",
    "claims",
    "compare",
    "datasets",
    "heads",
    "load",
    "models",
    "plot_comparison",
    "shards",
    "sweep",
    "tables",
    "trackers",
    "train",
    "verify",
]

_EXPORTS = {
    "algorithms": ("Algorithm",),
    "api": ("train",),
    "comparison_api": ("compare",),
    "comparisons": ("plot_comparison",),
    "errors": ("BudgetExceeded", "TacitError"),
    "estimators": ("PrivacyAccount", "TacitClassifier", "TacitRegressor"),
    "graphs": ("Graph",),
    "networks": ("Network",),
    "privacy": ("Bounded", "Exact", "Gaussian", "Laplace", "Privacy"),
    "runs": ("Config", "Observer", "Run", "load", "verify"),
    "sweeps": ("sweep",),
    "tasks": ("Clip", "Dataset", "Head", "Model", "Target", "Task", "datasets", "heads", "models", "shards"),
}

_MODULES = ("claims", "tables", "trackers")


def __getattr__(name: str) -> Any:
    """Import a name on first use: importing torch takes seconds, and not every command needs it."""
    for module, names in _EXPORTS.items():
        if name in names:
            return getattr(import_module(f"tacit.{module}"), name)
    if name in _EXPORTS or name in _MODULES:
        return import_module(f"tacit.{name}")
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
