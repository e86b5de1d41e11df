"""Learn graphs from private signals (PPGL and its baselines). The signals stay with the clients."""

from tacit.graph_learning import data, scores, synthetic
from tacit.graph_learning.default_parameters import ProblemParameters, default_parameters
from tacit.graph_learning.fedavg import FedAvg
from tacit.graph_learning.files import ClientSignals, read_clients, write_graph
from tacit.graph_learning.grid_search import SearchResult, f1_against, grid_search, paper_grid_search
from tacit.graph_learning.igl import IGL
from tacit.graph_learning.learner import EDGE_THRESHOLD, GraphLearner, matrices, to_networkx
from tacit.graph_learning.method import GraphMethod, graph_methods
from tacit.graph_learning.observer import GraphObserver
from tacit.graph_learning.ppgl import PPGL
from tacit.graph_learning.records import reserve_signals
from tacit.graph_learning.run import GraphLearningRun
from tacit.graph_learning.score_metrics import GraphScore
from tacit.graph_learning.sensitivity import classical_noise_multiplier
from tacit.graph_learning.signals import CLIP_KEY, Signals
from tacit.graph_learning.statistic import StatisticName, default_statistic
from tacit.graph_learning.triangle import pair_vertices
from tacit.registry import discover

__all__ = [
    "CLIP_KEY",
    "EDGE_THRESHOLD",
    "IGL",
    "PPGL",
    "ClientSignals",
    "FedAvg",
    "GraphLearner",
    "GraphLearningRun",
    "GraphMethod",
    "GraphObserver",
    "GraphScore",
    "ProblemParameters",
    "SearchResult",
    "Signals",
    "StatisticName",
    "classical_noise_multiplier",
    "data",
    "default_parameters",
    "default_statistic",
    "f1_against",
    "graph_methods",
    "grid_search",
    "matrices",
    "pair_vertices",
    "paper_grid_search",
    "read_clients",
    "reserve_signals",
    "scores",
    "synthetic",
    "to_networkx",
    "write_graph",
]

discover(__name__)  # registers every method and metric, also those that are not imported above
