"""Communication graphs: which nodes exchange messages in each round, and with which weights."""

from tacit.graphs.analysis import largest_laplacian
from tacit.graphs.base import HORIZON, Graph, graphs
from tacit.graphs.custom import edges, from_networkx
from tacit.graphs.digest import weights_digest
from tacit.graphs.dropout import Dropout, drop
from tacit.graphs.families import (
    complete,
    d_out,
    exponential,
    grid,
    one_peer_exponential,
    ring,
    star,
    torus,
)
from tacit.graphs.needs import require
from tacit.graphs.periodic import Lazy, Periodic, from_matrices
from tacit.graphs.random_graphs import erdos_renyi, random_regular
from tacit.graphs.repeated import Repeated
from tacit.graphs.weights import lazy, metropolis, uniform_out

__all__ = [
    "HORIZON",
    "Dropout",
    "Graph",
    "Lazy",
    "Periodic",
    "Repeated",
    "complete",
    "d_out",
    "drop",
    "edges",
    "erdos_renyi",
    "exponential",
    "from_matrices",
    "from_networkx",
    "graphs",
    "grid",
    "largest_laplacian",
    "lazy",
    "metropolis",
    "one_peer_exponential",
    "random_regular",
    "require",
    "ring",
    "star",
    "torus",
    "uniform_out",
    "weights_digest",
]
