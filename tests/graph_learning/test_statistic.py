"""The Gram matrix of unit signals: against numpy, against exact arithmetic, and as the statistic of every method."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graph_learning import IGL, PPGL, FedAvg, GraphLearner, GraphLearningRun, Signals, synthetic
from tacit.graph_learning.scores import edge_scores, triangles
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Noise, plan
from tests.graph_learning import oracle
from tests.graph_learning.adversarial import MAX, TINY, rows

D = 5
ROW = st.one_of(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=D, max_size=D),
    st.lists(st.sampled_from([0.0, MAX, -MAX, TINY, 1e154, -1e-154, 1.0, 1 + 2**-52]), min_size=D, max_size=D),
    st.sampled_from([row.tolist() for row in rows(D).values()]),
)
GRAM = {"statistic": "gram"}


def gram_of(table):
    """The exact triangle, and the sensitivity."""
    value = Signals([table]).gram(0)
    return value.use_locally()[0].tolist(), float(value.sensitivity[0])


@settings(max_examples=200)
@given(table=st.lists(ROW, min_size=2, max_size=5), other=ROW)
@example(table=[[MAX] * D, [1.0] * D], other=[-MAX, MAX, -MAX, MAX, 0.0])
@example(table=np.eye(2, D).tolist(), other=np.eye(D)[1].tolist())
@example(table=[[TINY, 0.0, 0.0, 0.0, 0.0]] * 2, other=[0.0] * D)
def test_replacing_any_signal_moves_the_matrix_by_at_most_root_two(table, other):
    """Without any tolerance: distances are computed in rational arithmetic."""
    a, sensitivity = gram_of(table)
    b, again = gram_of([other, *table[1:]])
    assert sensitivity == again == math.sqrt(2)
    assert sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True)) <= Fraction(sensitivity) ** 2
    assert gram_of(table[::-1])[0] == a  # the sums are exact


def test_orthogonal_signals_reach_the_sensitivity():
    first, second = (gram_of(np.array([row, np.zeros(4)]))[0] for row in ([1.0, -1, 0, 0], [0.0, 0, 1, -1]))
    assert np.linalg.norm(np.subtract(first, second)) == pytest.approx(math.sqrt(2), rel=1e-4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(TacitError, match=r"row 1, column 1 .* is missing or not finite"):
        Signals([[[1.0, 2.0], [3.0, bad]]]).gram(0)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), d=st.integers(2, 12), spread=st.floats(0, 100))
def test_z_is_that_of_the_oracle(seed, n, d, spread):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, d)) + 3.0) * 10 ** rng.uniform(-spread, spread, size=(n, 1))
    task = Signals([x, x[: n // 2 + 1]])
    z = PPGL(**GRAM).prepare_z(task)
    for found, table in zip(z.numpy(), (x, x[: n // 2 + 1]), strict=True):
        assert np.allclose(found, oracle.unit_differences(table), atol=1e-3)
    assert (z >= 0).all()


def test_units_offsets_and_constant_signals_do_not_matter():
    x = np.random.default_rng(0).normal(size=(20, D)).round(6)
    exact = gram_of(x)[0]
    assert gram_of(np.ldexp(x, np.arange(20)[:, None] * 50 - 500))[0] == exact
    assert np.allclose(gram_of(7 * x + 1000)[0], exact, atol=1e-3)
    assert gram_of(np.concatenate([x, np.full((3, D), 5.0)]))[0] == exact


SHAPE = {"beta": 0.1, "rho": 0.1, "lam": 0.1}
METHODS = [PPGL, IGL, FedAvg]


@pytest.mark.parametrize("kind", METHODS)
def test_what_is_released_is_planned_recorded_and_stated(kind):
    data = synthetic.rbf(clients=3, signals=50, seed=0)
    task = Signals(data.signals, noise=Noise.from_seed(0))
    method = kind(**GRAM, rounds=20).with_privacy(2.0, 1e-5)
    run = GraphLearningRun(task, method, Simulated(complete(3)), quiet=True).go()
    (release,) = task.ledger.releases()
    (planned,) = plan(method.privacy, method.rounds, task.sampling, task.nodes)
    assert release.purpose == planned.purpose == "Gram matrix of signals"
    assert 1.999 < run.privacy.guaranteed <= 2.0
    assert "A client releases, once and with noise, the Gram matrix of its signals" in run.privacy.sentence()
    other = GraphLearner(kind(), epsilon=2.0, clip=20.0, seed=0).fit(data.signals)
    assert "once and with noise, the mean of its signals' squared differences" in other.privacy_.sentence()


def test_noise_has_the_scale_of_the_sensitivity():
    task = Signals([np.eye(2, 60)], noise=Noise.from_seed(0))
    exact = task.gram(1).use_locally()
    noise = PPGL(noise=3.0).privacy.mechanism(task.nodes).release(task.gram(0)) - exact
    assert float(noise.std()) == pytest.approx(3.0 * math.sqrt(2), rel=0.05)


@pytest.mark.parametrize("kind", METHODS)
def test_only_z_from_released_matrices_has_a_guarantee(kind):
    x = synthetic.rbf(clients=2, signals=20, seed=0).signals
    task, method = Signals(x, noise=Noise.from_seed(0)), kind(**GRAM, noise=2.0, rounds=3)
    z = method.prepare_z(task)
    assert task.has_released(z)
    exact = kind(**GRAM).prepare_z(Signals(x))
    assert not task.has_released(exact)
    assert GraphLearningRun(task, method, Simulated(complete(2)), z=z, quiet=True).go().privacy.guaranteed > 0
    other = task.with_new_ledger()
    method.prepare_z(other)
    run = GraphLearningRun(other, method, Simulated(complete(2)), z=exact, quiet=True)
    assert run.privacy.reason == "the graphs were learned from values that are not in this ledger"


@pytest.mark.parametrize(
    ("options", "statistic"),
    [
        ({}, "differences"),
        ({"statistic": "gram"}, "gram"),
        ({"epsilon": 1.0}, "gram"),
        ({"noise": 1.0}, "gram"),
        ({"epsilon": 1.0, "clip": 20.0}, "differences"),
        ({"epsilon": 1.0, "clip": 20.0, **SHAPE, "release": "rounds", "rounds": 2}, "differences"),
    ],
)
def test_the_default_statistic(options, statistic):
    learner = GraphLearner(**options, seed=0).fit(synthetic.rbf(clients=2, signals=20, seed=0).signals)
    assert learner.method_.statistic == statistic


def test_the_matrix_gives_better_graphs_at_the_same_epsilon():
    data = synthetic.rbf(clients=5, signals=1000, seed=1)

    def f1(**options):
        learner = GraphLearner(epsilon=4.55, seed=0, tolerance=1e-3, **options).fit(data.signals)
        return edge_scores(triangles(learner.graphs_), data.graphs).f1

    assert f1() > f1(clip=2.0) + 0.02 > f1(clip=20.0) + 0.04


def test_many_signals_are_refused(monkeypatch):
    monkeypatch.setattr("tacit.graph_learning.statistic.MAX_RECORDS", 10)
    with pytest.raises(TacitError, match="is for at most 10 signals per client, got 20"):
        GraphLearner(epsilon=1.0).fit(synthetic.rbf(clients=2, signals=20).signals)
