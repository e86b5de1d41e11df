"""Strategies for test graphs: every registered graph at every valid size, and arbitrary random graphs."""

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs import Dropout, Graph, Lazy, from_matrices, from_networkx, graphs

FAMILIES = [name for name in graphs if name != "edges"]
PARAMETERS = {
    "ring": {"directed": st.booleans(), "lazy": st.booleans()},
    "d-out": {"d": st.integers(1, 6)},
    "one-peer-exponential": {"period": st.sampled_from(["floor", "ceil"])},
    "complete": {"lazy": st.booleans()},
    "star": {"lazy": st.booleans()},
    "grid": {"lazy": st.booleans()},
    "torus": {"lazy": st.booleans()},
    "erdos-renyi": {"seed": st.integers(0, 99), "lazy": st.booleans()},
    "random-regular": {"degree": st.integers(0, 6), "seed": st.integers(0, 99), "lazy": st.booleans()},
}


@st.composite
def family(draw: st.DrawFn, largest: int = 24) -> Graph:
    """Any registered graph; sizes that it refuses are redrawn."""
    name = draw(st.sampled_from(FAMILIES))
    params = draw(st.fixed_dictionaries(PARAMETERS.get(name, {})))
    try:
        return graphs.build(name, {"nodes": draw(st.integers(1, largest)), **params})
    except TacitError:
        return graphs.build("ring", {"nodes": draw(st.integers(1, largest))})


@st.composite
def any_networkx(draw: st.DrawFn, largest: int = 9) -> nx.Graph:
    """A random networkx graph, directed or undirected, usually disconnected."""
    nodes = draw(st.integers(1, largest))
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    g = draw(st.sampled_from([nx.Graph, nx.DiGraph]))()
    g.add_nodes_from(range(nodes))
    g.add_edges_from(draw(st.lists(pairs, max_size=3 * nodes)))
    return g


@st.composite
def any_sequence(draw: st.DrawFn, largest: int = 7) -> Graph:
    """A periodic sequence of random column-stochastic matrices, sparse enough to need more than one round."""
    nodes, period = draw(st.integers(1, largest)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    matrices = rng.random((period, nodes, nodes)) * (rng.random((period, nodes, nodes)) < draw(st.floats(0, 0.6)))
    matrices += np.eye(nodes)
    return from_matrices(list(matrices / matrices.sum(axis=1, keepdims=True)))


def any_graph() -> st.SearchStrategy[Graph]:
    base = st.one_of(family(), any_networkx().map(from_networkx), any_sequence())
    return st.one_of(base, base.map(Lazy))


def any_dropout() -> st.SearchStrategy[Dropout]:
    chance = st.floats(0, 0.9)
    return st.builds(Dropout, any_graph(), links=chance, nodes=chance, seed=st.integers(0, 2**40))
