"""Graphs learned from private signals (PPGL): the signals stay with the clients, the graphs are learned together."""

from tacit.graph_learning.baselines import IGL, FedAvg
from tacit.graph_learning.learner import GraphLearner, matrices, to_networkx
from tacit.graph_learning.learning import Learning
from tacit.graph_learning.method import GraphMethod
from tacit.graph_learning.ppgl import PPGL
from tacit.graph_learning.selection import Parameters, Search, defaults, f1_of, paper_search, search
from tacit.graph_learning.signals import Signals

__all__ = [
    "IGL",
    "PPGL",
    "FedAvg",
    "GraphLearner",
    "GraphMethod",
    "Learning",
    "Parameters",
    "Search",
    "Signals",
    "defaults",
    "f1_of",
    "matrices",
    "paper_search",
    "search",
    "to_networkx",
]
