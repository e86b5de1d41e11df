"""How values travel between nodes: four verbs, in simulation, on threads, and over the ranks of a cluster."""

from tacit.networks.cluster import Cluster
from tacit.networks.coordinator import ClusterCoordinator, Coordinator
from tacit.networks.network import Costs, Edges, Network, PeerStopped, Traffic
from tacit.networks.process_group import RENDEZVOUS_FILE, ProcessGroup, in_process_group, join_process_group
from tacit.networks.simulated import Simulated
from tacit.networks.threaded import Threaded, run_on_threads
from tacit.networks.view import NetworkView

__all__ = [
    "RENDEZVOUS_FILE",
    "Cluster",
    "ClusterCoordinator",
    "Coordinator",
    "Costs",
    "Edges",
    "Network",
    "NetworkView",
    "PeerStopped",
    "ProcessGroup",
    "Simulated",
    "Threaded",
    "Traffic",
    "in_process_group",
    "join_process_group",
    "run_on_threads",
]
