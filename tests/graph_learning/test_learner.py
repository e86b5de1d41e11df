"""`GraphLearner`, and what it says to bad input."""

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.graph_learning import IGL, PPGL, GraphLearner, synthetic
from tacit.graph_learning.scores import edge_scores, triangles
from tacit.graphs import star

DATA = synthetic.rbf(clients=3, signals=60, seed=0)


def test_it_learns_and_exports():
    learner = GraphLearner().fit(DATA.signals)
    assert learner.graphs_.shape == (3, 20, 20)
    assert np.array_equal(learner.graphs_, learner.graphs_.transpose(0, 2, 1))
    assert (learner.graphs_ >= 0).all()
    assert learner.converged_
    assert learner.privacy_.guaranteed is None
    assert edge_scores(triangles(learner.graphs_), DATA.graphs).f1 > 0.5
    graph = learner.to_networkx(0, [f"v{i}" for i in range(20)])
    assert set(graph) == {f"v{i}" for i in range(20)}
    assert all(data["weight"] == learner.graphs_[0][int(a[1:]), int(b[1:])] for a, b, data in graph.edges(data=True))
    assert learner.to_networkx().number_of_edges() < graph.number_of_edges()


def test_the_same_with_a_server():
    a, b = (GraphLearner(graph=graph).fit(DATA.signals).consensus_ for graph in (None, star(3)))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("method", ["ppgl", "igl", "fedavg"])
def test_private_once(method):
    learner = GraphLearner(method, epsilon=1.0, delta=1e-6, clip=20.0, tolerance=1e-3).fit(DATA.signals)
    assert 0.999 < learner.privacy_.guaranteed <= 1.0
    assert learner.privacy_.delta == 1e-6
    assert "simulation" not in learner.privacy_.sentence()  # the noise is the system's
    other = GraphLearner(method, epsilon=1.0, clip=20.0, tolerance=1e-3).fit(DATA.signals)
    assert not np.array_equal(learner.graphs_, other.graphs_)


def test_private_in_rounds():
    learner = GraphLearner(
        epsilon=3.0, clip=20.0, release="rounds", rounds=50, K=1, step=0.01, beta=0.02, rho=0.3, lam=0.1, seed=1
    ).fit(DATA.signals)
    assert 2.999 < learner.privacy_.guaranteed <= 3.0
    assert learner.privacy_.claimed > 10
    assert learner.converged_ is None
    again = GraphLearner(
        **{**vars(learner)["parameters"]}, epsilon=3.0, clip=20.0, release="rounds", beta=0.02, rho=0.3, lam=0.1, seed=1
    )
    assert np.array_equal(again.fit(DATA.signals).graphs_, learner.graphs_)


def test_once_is_better_than_rounds_at_the_same_epsilon():
    data = synthetic.rbf(clients=5, signals=400, seed=2)
    options = {"epsilon": 8.0, "clip": 20.0, "beta": 0.02, "rho": 0.2, "lam": 0.05, "seed": 0}
    once = GraphLearner(**options).fit(data.signals)
    rounds = GraphLearner(release="rounds", rounds=50, K=1, step=0.01, initial=0.1, **options).fit(data.signals)
    errors = [edge_scores(triangles(each.graphs_), data.graphs).relative_error for each in (once, rounds)]
    assert errors[0] < errors[1]


def test_a_method_of_ones_own():
    learner = GraphLearner(PPGL(beta=0.05, K=3, rounds=2000), tolerance=1e-4).fit(DATA.signals)
    assert learner.parameters_["beta"] == 0.05
    assert GraphLearner(IGL(beta=0.05)).fit(DATA.signals).consensus_ is None


X = np.random.default_rng(0).normal(size=(5, 4))
HOLE = np.where(np.arange(20).reshape(5, 4) == 6, np.nan, X)
BAD = [
    ([X, X[:, :3]], {}, "client 0 has signals on 4 vertices and client 1 on 3: all clients' signals live on the same"),
    ([X, HOLE], {}, "the signals of client 1 hold a value that is not finite, in row 1, column 2"),
    ([X, np.ones((5, 4))], {}, "every signal of client 1 is constant over the vertices"),
    ([X], {}, "one client has nobody to agree with: use IGL"),
    ([X, X[:1]], {}, "client 1 has 1 signal: to learn a graph from, it needs at least 2"),
    ([X, X[0]], {}, "the signals of client 1 have 1 axes"),
    ([X, X[:, :1]], {}, "the signals of client 1 live on 1 vertex"),
    ([X, [["a", "b"]] * 2], {}, "the signals of client 1 are not a table of numbers"),
    ([], {}, "there are no signals"),
    ([X, 1e200 * X], {}, "signals are so large that their squares overflow"),
    ([X, X], {"epsilon": 1.0}, "noise protects only what is clipped: set clip"),
    ([X, X], {"epsilon": -1.0, "clip": 1.0}, "ε"),
    ([X, X], {"epsilon": 1.0, "delta": 0.0, "clip": 1.0}, "δ"),
    ([X, X], {"epsilon": 1.0, "clip": -1.0}, "clip must be positive and finite"),
    ([X, X], {"method": "pggl"}, 'unknown graph learning method "pggl"; did you mean "ppgl"?'),
    ([X, X], {"method": "igl", "rho": 1.0}, "IGL has no rho"),
    ([X, X], {"bta": 1.0}, "PPGL has no bta: it knows alpha, beta"),
    ([X, X], {"beta": 0.0}, "beta must be positive"),
    ([X, X], {"lam": -1.0}, "lam must be 0 or more"),
    ([X, X], {"rho": float("nan")}, "rho must be positive"),
    ([X, X], {"K": 0}, "K must be at least 1"),
    ([X, X], {"momentum": 1.0}, "momentum must be at least 0 and below 1"),
    ([X, X], {"step": 0.0}, "step must be positive"),
    ([X, X], {"zeta": -1.0}, "zeta must be 0 or more"),
    ([X, X], {"rounds": 0}, "rounds must be at least 1"),
    ([X, X], {"release": "twice"}, 'release is "once" or "rounds"'),
    ([X, X], {"method": "igl", "release": "rounds"}, "IGL has no messages to release"),
    (
        [X, X],
        {"epsilon": 1.0, "clip": 1.0, "release": "rounds"},
        "beta and rho and lam cannot be chosen from the signals",
    ),
    ([X, X], {"graph": star(3)}, "there are signals of 2 clients for a graph of 3 nodes"),
    ([X, X], {"method": PPGL(noise=1.0), "epsilon": 1.0, "clip": 1.0}, "both set the noise"),
]


@pytest.mark.parametrize(("signals", "options", "sentence"), BAD)
def test_bad_input_gets_a_sentence(signals, options, sentence):
    with pytest.raises(TacitError) as error:
        GraphLearner(**options).fit(signals)
    assert sentence in str(error.value)


def test_one_client_alone():
    assert GraphLearner("igl").fit([X]).graphs_.shape == (1, 4, 4)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    """Signals in other units: the same graph, in other units."""
    here, there = (GraphLearner().fit([unit * x for x in DATA.signals]) for unit in (1.0, scale))
    assert np.allclose(there.graphs_ * scale**2, here.graphs_, rtol=1e-3, atol=1e-3 * here.graphs_.max())


def test_a_large_offset_does_no_harm():
    here, there = (GraphLearner("igl", beta=0.02).fit([x + offset for x in DATA.signals]) for offset in (0.0, 1e6))
    assert np.allclose(there.graphs_, here.graphs_, atol=1e-4)
