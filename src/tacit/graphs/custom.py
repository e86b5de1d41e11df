"""User-defined graphs: from a file of links, or from a networkx graph."""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.base import Graph, graphs
from tacit.graphs.families import check_node_count
from tacit.graphs.periodic import Periodic, canonical
from tacit.graphs.weights import GivenOrRule, one_way_link, weigh

if TYPE_CHECKING:
    import networkx as nx

Link = tuple[int, int]


@graphs.register("edges")
def edges(
    nodes: int,
    path: str | Path,
    weights: GivenOrRule | None = None,
    directed: bool = True,
    lazy: bool = False,
) -> Graph:
    """Links from a text file: one `source target [weight]` per line, separated by spaces or commas.

    Nodes are numbered from 0, and # starts a comment. Weights in the file are used unchanged, so such a file must list
    the self-loops too.

    Args:
        nodes: The number of nodes.
        path: The file.
        weights: "given" for the weights in the file, or the rule "metropolis" or "uniform-out". By default the weights
            in the file; if it has none, metropolis for an undirected graph, else uniform-out.
        directed: If False, every line is a link in both directions.
        lazy: If True, every node keeps half of its value.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "links.csv"
    ...     _ = file.write_text("source,target\\n0,1\\n1,2  # one way round\\n2,0\\n")
    ...     graph = edges(3, file)
    >>> graph, graph.directed, graph.at(0).toarray()[:, 0]
    (<links.csv: 3 nodes, static>, True, array([0.5, 0.5, 0. ]))
    """
    check_node_count("edges", nodes)
    file = Path(path)
    read = _read(file, nodes, directed)
    pairs = np.array(list(read), dtype=np.int64).reshape(-1, 2)
    has_weights = None not in read.values()
    if weights == "given" and not has_weights:
        raise TacitError(f'{file} has no weights: add a third column, or use weights="uniform-out"')
    values = np.array(list(read.values()), dtype=np.float64) if has_weights else np.ones(len(pairs))
    matrix = sparse.csr_array((values, (pairs[:, 1], pairs[:, 0])), shape=(nodes, nodes))
    if not directed:
        matrix = matrix + matrix.T - sparse.diags_array(matrix.diagonal())
    return _weighted_graph(matrix, "given" if weights is None and has_weights and read else weights, lazy, file.name)


def _read(file: Path, nodes: int, directed: bool) -> dict[Link, float | None]:
    """Return each link in the file once, with its weight."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise TacitError(f"Cannot read {file}: {reason}") from None
    found: dict[Link, float | None] = {}
    weighted: bool | None = None
    for number, line in enumerate(lines, start=1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if not fields or (not found and [field.lower() for field in fields[:2]] == ["source", "target"]):
            continue
        try:
            link, weight = _parse(fields, nodes)
            link = link if directed else (min(link), max(link))
            weighted = weight is not None if weighted is None else weighted
            if weighted != (weight is not None):
                raise TacitError("some links have a weight and some do not: give all links a weight, or none")
            if found.setdefault(link, weight) != weight:
                raise TacitError(
                    f"link {link[0]} → {link[1]} has weight {weight:g}, but {found[link]:g} in an earlier line"
                )
        except TacitError as error:
            raise TacitError(f"{file}, line {number}: {error}") from None
    return found


def _parse(fields: list[str], nodes: int) -> tuple[Link, float | None]:
    if len(fields) not in (2, 3):
        raise TacitError(f"expected `source target` or `source target weight`, got {len(fields)} value(s)")
    for field in fields[:2]:
        if not (field.isascii() and field.isdigit() and len(field) < 19 and int(field) < nodes):
            raise TacitError(f'"{field}" is not a node; nodes are 0 to {nodes - 1}')
    try:
        weight = float(fields[2]) if len(fields) == 3 else None
    except ValueError:
        raise TacitError(f'weight "{fields[2]}" is not a number') from None
    if weight is not None and not 0 <= weight < np.inf:
        raise TacitError(f"weight must be finite and at least 0, got {fields[2]}")
    return (int(fields[0]), int(fields[1])), weight


def from_networkx(
    g: nx.Graph, weights: GivenOrRule | None = None, lazy: bool = False, name: str = "networkx graph"
) -> Graph:
    """Return a networkx graph as a `Graph`. An edge u → v means that u sends to v.

    Nodes are numbered by their sorted labels. Labels that cannot be sorted keep the order of the networkx graph.

    Args:
        g: The networkx graph.
        weights: "given" for the edges' attribute `weight`, with self-loops; or the rule "metropolis" or "uniform-out".
            By default metropolis for an undirected graph, else uniform-out.
        lazy: If True, every node keeps half of its value.
        name: The name in messages and reports.

    >>> import networkx as nx
    >>> from_networkx(nx.path_graph(["a", "b", "c"])).at(0).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.33, 0.67]])
    """
    import networkx as nx  # slow to import

    check_node_count(name, len(g))
    try:
        labels = sorted(g.nodes)
    except TypeError:
        labels = list(g.nodes)
    for source, target, weight in g.edges(data="weight") if weights == "given" else ():
        if not isinstance(weight, Real):
            raise TacitError(f'{name}: attribute "weight" of edge {source} → {target} must be a number, got {weight!r}')
    attribute = "weight" if weights == "given" else None
    matrix = nx.to_scipy_sparse_array(g, nodelist=labels, weight=attribute, dtype=np.float64, format="csr").T
    return _weighted_graph(matrix, weights, lazy, name)


def _weighted_graph(matrix: sparse.sparray, weights: GivenOrRule | None, lazy: bool, name: str) -> Graph:
    checked = canonical(matrix, name)
    if weights is None:
        weights = "metropolis" if one_way_link(checked) is None else "uniform-out"
    return Periodic([weigh(checked, weights, lazy)], name)
