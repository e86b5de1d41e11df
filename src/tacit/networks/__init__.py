"""How values travel between nodes: the four verbs, in simulation, over threads, and over the ranks of a cluster."""

from tacit.networks.cluster import Cluster
from tacit.networks.coordinator import Coordinator, RankCoordinator
from tacit.networks.network import Costs, Edges, Network, Stopped, Traffic
from tacit.networks.ranks import Ranks, joined, started
from tacit.networks.simulated import Simulated
from tacit.networks.threaded import Threaded, on_threads

__all__ = [
    "Cluster",
    "Coordinator",
    "Costs",
    "Edges",
    "Network",
    "RankCoordinator",
    "Ranks",
    "Simulated",
    "Stopped",
    "Threaded",
    "Traffic",
    "joined",
    "on_threads",
    "started",
]
