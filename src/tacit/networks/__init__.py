"""How values travel between nodes: the four verbs, in simulation and over threads."""

from tacit.networks.network import Costs, Edges, Network, Traffic
from tacit.networks.simulated import Simulated
from tacit.networks.threaded import Threaded, on_threads

__all__ = ["Costs", "Edges", "Network", "Simulated", "Threaded", "Traffic", "on_threads"]
