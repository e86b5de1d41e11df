"""Check that a graph has the properties that an algorithm needs."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from tacit.errors import TacitError, unknown
from tacit.graphs.analysis import Integers, components, pattern
from tacit.graphs.base import TOLERANCE, Graph
from tacit.graphs.weights import one_way_link


def require(graph: Graph, *needs: str, who: str) -> None:
    """Raise a `TacitError` if the graph lacks a property. The message names what is wrong and what to use instead.

    Args:
        graph: The graph.
        needs: The required properties: column-stochastic, row-stochastic, doubly-stochastic (these three include
            self-loops), symmetric, undirected, connected (over some window), static, self-loops, neighbours (more than
            one node).
        who: The name of the algorithm, for the message.

    >>> from tacit.graphs import ring
    >>> require(ring(5, directed=True), "column-stochastic", "connected", who="SGP")
    >>> require(ring(5, directed=True), "undirected", who="LT-ADMM")
    Traceback (most recent call last):
    tacit.errors.TacitError: LT-ADMM needs an undirected graph; "directed ring" has a link 0 → 1 but no \
link back: use an undirected graph such as ring, grid or erdos-renyi
    """
    for need in needs:
        if need not in CHECKS:
            raise unknown("need", need, CHECKS)
        found = CHECKS[need](graph)
        if found is not None:
            article = "an" if need[0] in "aeiou" else "a"
            what = need if need in ("self-loops", "neighbours") else f"{article} {need} graph"
            raise TacitError(f'{who} needs {what}; "{graph.name}" {found}')


def _columns(graph: Graph) -> str | None:
    if not graph.column_stochastic:
        return f'{_sums(graph, axis=0, what="columns")}: use weights="uniform-out"'
    return _self_loops(graph)


def _rows(graph: Graph) -> str | None:
    if graph.row_stochastic:
        return _self_loops(graph)
    if graph.expected() is not graph and graph.expected().row_stochastic:
        fit = 'use an undirected graph with weights="metropolis", or no drop-out'
    elif graph.directed:
        fit = "use a regular graph such as d-out or one-peer-exponential, or an undirected one"
    else:
        fit = 'use weights="metropolis"'
    return f"{_sums(graph, axis=1, what='rows')}: {fit}"


def _doubly(graph: Graph) -> str | None:
    # For an undirected graph one change is enough, so do not report columns and rows one after the other.
    if not graph.directed and not graph.doubly_stochastic:
        what = "rows" if graph.column_stochastic else "columns"
        return f'{_sums(graph, axis=int(what == "rows"), what=what)}: use weights="metropolis"'
    return _columns(graph) or _rows(graph)


def _sums(graph: Graph, axis: int, what: str) -> str:
    """Describe the sum farthest from 1, in the first round in which a sum is not 1."""
    for t, matrix in enumerate(graph.cycle()):
        sums = matrix.sum(axis=axis)
        node = int(np.argmax(abs(sums - 1)))
        if abs(sums[node] - 1) > TOLERANCE:
            when = "" if graph.period == 1 else f" in round {t}"
            return f"has {what} that sum to {_unlike_one(float(sums[node]))} (node {node}{when})"
    return f"can have {what} that do not sum to 1 when links fail"


def _unlike_one(value: float) -> str:
    """Format with two digits, or as many as are needed to differ from 1."""
    return next((text for digits in (2, 4, 6) if float(text := f"{value:.{digits}f}") != 1), f"{value:.12f}")


def _self_loops(graph: Graph) -> str | None:
    if graph.self_loops:
        return None
    missing = (np.flatnonzero(matrix.diagonal() <= 0) for matrix in graph.cycle())
    node = next((f"node {nodes[0]}" for nodes in missing if len(nodes)), "some node")
    return f"has no self-loop at {node}, so the node would lose its own value: add a self-loop, or use Lazy"


def _undirected(graph: Graph) -> str | None:
    if not graph.directed:
        return None
    source, target = next(link for link in map(one_way_link, graph.expected().cycle()) if link)
    fit = "use an undirected graph such as ring, grid or erdos-renyi"
    return f"has a link {source} → {target} but no link back: {fit}"


def _symmetric(graph: Graph) -> str | None:
    if graph.symmetric:
        return None
    return _undirected(graph) or 'has links with different weights in the two directions: use weights="metropolis"'


def _connected(graph: Graph) -> str | None:
    if graph.window() is not None:
        return None
    patterns = [pattern(matrix) for matrix in graph.expected().cycle()]
    union = sparse.csr_array(sum(patterns[1:], patterns[0]))
    # Row i holds what node i receives, so paths from node 0 follow the transpose.
    cut_off, not_reaching = _nodes_not_reached(union.T), _nodes_not_reached(union)
    if len(cut_off):
        which = f"node {cut_off[0]} cannot be reached from node 0"
    else:
        which = f"node {not_reaching[0]} cannot reach node 0"
    over = "" if len(patterns) == 1 else f" over all {len(patterns)} rounds"
    falls = f"has {components(union)} components{over}"
    return f"{falls}: {which}. Add links until every node can reach every other"


def _nodes_not_reached(matrix: sparse.sparray) -> Integers:
    """Return the nodes that no path from node 0 reaches, following entries from row to column."""
    from scipy.sparse import csgraph  # slow to import

    reached = csgraph.breadth_first_order(sparse.csr_array(matrix), 0, return_predecessors=False)
    return np.setdiff1d(np.arange(matrix.shape[0]), reached)


def _static(graph: Graph) -> str | None:
    if graph.period == 1:
        return None
    how = f"repeats every {graph.period} rounds" if graph.period else "changes at random from round to round"
    return f"{how}: use a static graph such as ring, exponential or d-out, without drop-out"


def _neighbours(graph: Graph) -> str | None:
    if graph.nodes > 1:
        return None
    return "has only one node: use at least 2 nodes, or a method without variables on edges such as dp-sgd"


CHECKS: dict[str, Callable[[Graph], str | None]] = {
    "column-stochastic": _columns,
    "row-stochastic": _rows,
    "doubly-stochastic": _doubly,
    "symmetric": _symmetric,
    "undirected": _undirected,
    "connected": _connected,
    "static": _static,
    "self-loops": _self_loops,
    "neighbours": _neighbours,
}
