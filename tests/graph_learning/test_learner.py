"""`GraphLearner`: results, privacy, and errors for bad input."""

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.graph_learning import IGL, PPGL, GraphLearner, synthetic
from tacit.graph_learning.scores import edge_scores, triangles
from tacit.graphs import star

DATA = synthetic.rbf(clients=3, signals=60, seed=0)


def test_fit_and_export():
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


def test_star_with_a_server_gives_the_same_consensus():
    a, b = (GraphLearner(graph=graph).fit(DATA.signals).consensus_ for graph in (None, star(3)))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("method", ["ppgl", "igl", "fedavg"])
def test_release_once_reaches_the_target_epsilon(method):
    learner = GraphLearner(method, epsilon=1.0, delta=1e-6, clip=20.0, tolerance=1e-3).fit(DATA.signals)
    assert 0.999 < learner.privacy_.guaranteed <= 1.0
    assert learner.privacy_.delta == 1e-6
    assert "SIMULATION" not in learner.privacy_.sentence()
    other = GraphLearner(method, epsilon=1.0, clip=20.0, tolerance=1e-3).fit(DATA.signals)
    assert not np.array_equal(learner.graphs_, other.graphs_)


def test_release_rounds_reaches_the_target_epsilon():
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


def test_release_once_is_more_accurate_than_rounds_at_the_same_epsilon():
    data = synthetic.rbf(clients=5, signals=400, seed=2)
    options = {"epsilon": 8.0, "clip": 20.0, "beta": 0.02, "rho": 0.2, "lam": 0.05, "seed": 0}
    once = GraphLearner(**options).fit(data.signals)
    rounds = GraphLearner(release="rounds", rounds=50, K=1, step=0.01, initial=0.1, **options).fit(data.signals)
    errors = [edge_scores(triangles(each.graphs_), data.graphs).relative_error for each in (once, rounds)]
    assert errors[0] < errors[1]


def test_method_object_instead_of_a_name():
    learner = GraphLearner(PPGL(beta=0.05, K=3, rounds=2000), tolerance=1e-4).fit(DATA.signals)
    assert learner.parameters_["beta"] == 0.05
    assert GraphLearner(IGL(beta=0.05)).fit(DATA.signals).consensus_ is None


X = np.random.default_rng(0).normal(size=(5, 4))
HOLE = np.where(np.arange(20).reshape(5, 4) == 6, np.nan, X)
BAD = [
    ([X, X[:, :3]], {}, "signals on the same vertices: client 0 has 4, client 1 has 3"),
    ([X, HOLE], {}, "Client 1: the value in row 1, column 2 (counted from 0) is missing or not finite"),
    ([X, np.ones((5, 4))], {}, "Client 1: every signal is constant over the vertices"),
    ([X], {}, "PPGL needs at least 2 clients, got 1"),
    ([X, X[:1]], {}, "Client 1 needs at least 2 signals, got 1"),
    ([X, X[0]], {}, "Client 1: signals must be a table with one row per signal"),
    ([X, X[:, :1]], {}, "Client 1: signals need at least 2 vertices, got 1"),
    ([X, [["a", "b"]] * 2], {}, "Client 1: the signals are not a table of numbers"),
    ([], {}, "No signals"),
    ([X, 1e200 * X], {}, "their squares overflow"),
    ([X, X], {"epsilon": 1.0, "statistic": "differences"}, "Noise on squared differences needs a clip: set clip"),
    ([X, X], {"epsilon": 1.0, "release": "rounds"}, "Noise on squared differences needs a clip: set clip"),
    ([X, X], {"epsilon": 1.0, "statistic": "gram", "clip": 9.0}, 'clip = 9 has no effect with statistic = "gram"'),
    ([X, X], {"statistic": "gram", "release": "rounds"}, 'must be "differences" if release = "rounds", got \'gram\''),
    ([X, X], {"statistic": "mean"}, 'statistic must be "gram" or "differences", got \'mean\''),
    ([X, X], {"method": PPGL(), "statistic": "gram"}, "Set statistic in the GraphMethod"),
    ([X, X], {"epsilon": -1.0, "clip": 1.0}, "epsilon must be finite"),
    ([X, X], {"epsilon": 1.0, "delta": 0.0, "clip": 1.0}, "delta in (0, 1)"),
    ([X, X], {"epsilon": 1.0, "clip": -1.0}, "clip must be between 1e-100 and 1e+100, got -1.0"),
    ([X, X], {"method": "pggl"}, 'unknown graph learning method "pggl"; did you mean "ppgl"?'),
    ([X, X], {"method": "igl", "rho": 1.0}, "IGL has no parameter rho"),
    ([X, X], {"bta": 1.0}, "PPGL has no parameter bta; its parameters are alpha, beta"),
    ([X, X], {"beta": 0.0}, "PPGL: beta must be positive and finite, got 0.0"),
    ([X, X], {"lam": -1.0}, "lam must be at least 0"),
    ([X, X], {"rho": float("nan")}, "rho must be positive"),
    ([X, X], {"K": 0}, "K must be at least 1, or None for an exact solution, got 0"),
    ([X, X], {"momentum": 1.0}, "momentum must be in [0, 1), got 1.0"),
    ([X, X], {"step": 0.0}, "step must be positive"),
    ([X, X], {"zeta": -1.0}, "zeta must be at least 0"),
    ([X, X], {"rounds": 0}, "rounds must be at least 1"),
    ([X, X], {"release": "twice"}, 'release must be "once" or "rounds", got'),
    ([X, X], {"method": "igl", "release": "rounds"}, "IGL sends no messages"),
    (
        [X, X],
        {"epsilon": 1.0, "clip": 1.0, "release": "rounds"},
        "Set beta, rho, lam: with noise in every round",
    ),
    ([X, X], {"graph": star(3)}, "got 3 nodes for 2 clients"),
    ([X, X], {"method": PPGL(noise=1.0), "epsilon": 1.0, "clip": 1.0}, "both set the noise"),
]


@pytest.mark.parametrize(("signals", "options", "message"), BAD)
def test_bad_input_is_refused(signals, options, message):
    with pytest.raises(TacitError) as error:
        GraphLearner(**options).fit(signals)
    assert message in str(error.value)


def test_one_client_with_igl():
    assert GraphLearner("igl").fit([X]).graphs_.shape == (1, 4, 4)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_graphs_do_not_depend_on_units(scale):
    """Signals in other units give the same graph in other units."""
    here, there = (GraphLearner().fit([unit * x for x in DATA.signals]) for unit in (1.0, scale))
    assert np.allclose(there.graphs_ * scale**2, here.graphs_, rtol=1e-3, atol=1e-3 * here.graphs_.max())


def test_graphs_do_not_depend_on_an_offset():
    here, there = (GraphLearner("igl", beta=0.02).fit([x + offset for x in DATA.signals]) for offset in (0.0, 1e6))
    assert np.allclose(there.graphs_, here.graphs_, atol=1e-4)
