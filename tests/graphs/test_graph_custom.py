"""User-defined graphs: files, networkx graphs, matrices."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs import edges, from_matrices, from_networkx, graphs

reuses_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "links.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@reuses_folder
@given(
    data=st.data(),
    nodes=st.integers(1, 12),
    directed=st.booleans(),
    separator=st.sampled_from([" ", ",", "\t", ", "]),
)
def test_random_files_are_read(tmp_path: Path, data: st.DataObject, nodes: int, directed: bool, separator: str) -> None:
    node = st.integers(0, nodes - 1)
    given_weights = data.draw(st.booleans())
    links = data.draw(st.dictionaries(st.tuples(node, node), st.floats(0.01, 10), min_size=1))
    if not directed:
        links = {(min(link), max(link)): w for link, w in links.items()}
    lines = [separator.join([str(s), str(t)] + [repr(w)] * given_weights) for (s, t), w in links.items()]
    noise = data.draw(st.lists(st.sampled_from(["", "# note", "  "]), max_size=3))
    file = write(tmp_path, "\n".join(noise + [line + "  # why" for line in lines]))

    graph = edges(nodes, file, directed=directed)

    matrix = np.zeros((nodes, nodes))
    for (source, target), w in links.items():
        matrix[target, source] = w
        if not directed:
            matrix[source, target] = w
    if given_weights:
        assert np.array_equal(graph.at(0).toarray(), matrix)
    else:
        assert np.allclose(graph.at(0).sum(axis=0), 1)
        linked = (matrix > 0) | np.eye(nodes, dtype=bool)
        assert np.array_equal(graph.at(0).toarray() > 0, linked)
        assert graph.symmetric == np.array_equal(linked, linked.T)


@reuses_folder
@given(content=st.one_of(st.binary(max_size=60), st.text("0123 ,.#-e\nsource", max_size=60).map(str.encode)))
def test_any_bytes_are_read_or_refused_with_an_error(tmp_path: Path, content: bytes) -> None:
    file, refusal, graph = write(tmp_path, content), "", None
    try:
        graph = edges(4, file)
    except TacitError as error:
        refusal = str(error)
    assert graph is not None or "links.txt" in refusal
    assert graph is None or (graph.nodes == 4 and np.all(graph.at(0).data > 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n1 a\n", 'line 2: "a" is not a node; nodes are 0 to 3'),
        ("# head\n\n0 4\n", 'line 3: "4" is not a node'),
        ("-1 0\n", 'line 1: "-1" is not a node'),
        ("9" * 5000 + " 0", "line 1"),
        ("0\n", "line 1: expected `source target` or `source target weight`, got 1 value"),
        ("0 1 0.5 7\n", "line 1: expected .*, got 4 value"),
        ("0 1 much\n", 'line 1: weight "much" is not a number'),
        ("0 1 -2\n", "line 1: weight must be finite and at least 0, got -2"),
        ("0,1,nan\n", "line 1: weight must be finite and at least 0, got nan"),
        ("0 1 0.5\n1 0\n", "line 2: some links have a weight and some do not"),
        ("0 1\n1 0 0.5\n", "line 2: some links have a weight and some do not"),
        ("0 1 0.5\n0 1 0.25\n", "line 2: link 0 → 1 has weight 0.25, but 0.5 in an earlier line"),
    ],
)
def test_error_names_the_bad_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TacitError, match=message) as refused:
        edges(4, write(tmp_path, text))
    assert str(tmp_path / "links.txt") in str(refused.value)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match=r"Cannot read .*nowhere.txt: No such file"):
        edges(4, tmp_path / "nowhere.txt")
    with pytest.raises(TacitError, match=r"Cannot read .*: not UTF-8 text"):
        edges(4, write(tmp_path, b"\xff\xfe0 1"))
    with pytest.raises(TacitError, match="has no weights: add a third column"):
        edges(4, write(tmp_path, "0 1\n"), weights="given")
    with pytest.raises(
        TacitError, match="Metropolis weights need an undirected graph, but link 0 → 1 has no link back"
    ):
        edges(4, write(tmp_path, "0 1\n"), weights="metropolis")


def test_header_repeated_links_and_registry(tmp_path: Path) -> None:
    file = write(tmp_path, "\ufeffSource,Target\n0,1\n1,0\n0,1\n")
    graph = graphs.build("edges", {"nodes": 3, "path": str(file), "lazy": True})
    assert np.allclose(graph.at(0).toarray(), [[0.75, 0.25, 0], [0.25, 0.75, 0], [0, 0, 1]])
    assert graph.name == "links.txt"


def test_large_file(tmp_path: Path) -> None:
    lines = [f"{i} {(i + k) % 10_000} 0.25" for i in range(10_000) for k in (0, 1, 10, 100)]
    graph = edges(10_000, write(tmp_path, "\n".join(lines)))
    assert graph.doubly_stochastic
    assert graph.at(0).nnz == 40_000


def test_networkx_labels_are_sorted_if_possible() -> None:
    g = nx.DiGraph([("c", "a"), ("a", "b")])
    assert [x.tolist() for x in from_networkx(g).edges(0)] == [[0, 2], [1, 0]]
    mixed = nx.DiGraph([("c", 1), (1, "b")])
    assert [x.tolist() for x in from_networkx(mixed).edges(0)] == [[0, 1], [1, 2]]


def test_networkx_default_weights() -> None:
    assert from_networkx(nx.star_graph(4)).doubly_stochastic
    directed = from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    assert directed.column_stochastic
    assert not directed.row_stochastic
    several = from_networkx(nx.MultiGraph([(0, 1), (0, 1)]))
    assert np.allclose(several.at(0).toarray(), 0.5)


def test_bad_networkx_graphs_are_refused() -> None:
    with pytest.raises(TacitError, match="networkx graph: nodes must be at least 1, got 0"):
        from_networkx(nx.Graph())
    with pytest.raises(TacitError, match='"weight" of edge 0 → 1 must be a number, got None'):
        from_networkx(nx.path_graph(3), weights="given")
    with pytest.raises(TacitError, match="weight of link 1 → 0 must be finite and at least 0, got nan"):
        from_networkx(nx.Graph([(0, 1, {"weight": float("nan")})]), weights="given")
    with pytest.raises(TacitError, match='unknown weights "metropolos"; did you mean "metropolis"'):
        from_networkx(nx.path_graph(3), weights="metropolos")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ([], "give at least one matrix"),
        ([[[1.0, 0.0]]], "custom matrices, round 0: weights must be a square matrix .* got 1 × 2"),
        ([3.0], "got a single number"),
        ([[["a"]]], "round 0: weights must be a square matrix of numbers"),
        ([[[1.0]], [[1.0, 0.0], [0.0, 1.0]]], "round 1 has 2 and round 0 has 1"),
        ([[[1.0, np.inf], [0.0, 1.0]]], "weight of link 1 → 0 must be finite and at least 0, got inf"),
        ([[[1.0, 0.0], [-0.5, 1.0]]], "link 0 → 1 must be finite and at least 0, got -0.5"),
    ],
)
def test_bad_matrices_are_refused(matrices: list[object], message: str) -> None:
    with pytest.raises(TacitError, match=message):
        from_matrices(matrices)


def test_given_matrices_are_copied() -> None:
    mine, sparse_one = np.eye(2), sparse.csr_array(np.eye(2))
    graph = from_matrices([mine, sparse_one])
    mine[0, 0] = 7
    sparse_one.data[:] = 7
    assert graph.at(0)[0, 0] == 1
    assert graph.at(1)[0, 0] == 1
