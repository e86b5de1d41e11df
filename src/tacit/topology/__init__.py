"""Graphs learned from private signals (PPGL): the signals stay with the clients, the graphs are learned together."""

from tacit.topology.baselines import IGL, FedAvg
from tacit.topology.learner import GraphLearner, matrices, to_networkx
from tacit.topology.learning import Learning
from tacit.topology.method import GraphMethod
from tacit.topology.ppgl import PPGL
from tacit.topology.selection import Parameters, Search, defaults, f1_of, paper_search, search
from tacit.topology.signals import Signals

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
