"""Tacit: differentially private decentralised learning, with privacy that is told truthfully."""

from tacit.algorithms import Algorithm, algorithms
from tacit.errors import BudgetExceeded, TacitError
from tacit.graphs import Graph, graphs
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
    "algorithms",
    "datasets",
    "graphs",
    "models",
    "shards",
    "train",
]
