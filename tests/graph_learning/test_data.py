"""Synthetic data, scores, reconstruction, default parameters and grid search."""

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from tacit.errors import TacitError
from tacit.graph_learning import (
    IGL,
    PPGL,
    Signals,
    default_parameters,
    f1_against,
    grid_search,
    matrices,
    paper_grid_search,
    synthetic,
)
from tacit.graph_learning.scores import (
    best_edge_scores,
    community_scores,
    edge_scores,
    reconstruct,
    reconstruction_error,
    triangles,
)
from tacit.privacy import Noise
from tests.graph_learning.cases import learn

KINDS = [synthetic.rbf, synthetic.erdos_renyi, synthetic.barabasi_albert]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("q", [0.0, 0.3, 0.9, 1.0])
def test_clients_share_a_fraction_q_of_the_edges(kind, q):
    data = kind(vertices=20, clients=4, signals=3, q=q, seed=1)
    base = kind(vertices=20, clients=1, signals=3, q=1.0, seed=1).graphs[0]
    count = np.count_nonzero(base)
    assert np.count_nonzero(data.consensus) == round(q * count)
    assert (np.count_nonzero(data.graphs, axis=1) == count).all()
    assert (data.graphs[:, data.consensus > 0] == data.consensus[data.consensus > 0]).all()
    assert set(np.unique(data.graphs)) <= set(np.unique(base)) | {0.0}
    again = kind(vertices=20, clients=4, signals=3, q=q, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(data.signals, again.signals, strict=True))
    assert not np.array_equal(kind(vertices=20, clients=4, signals=3, q=q, seed=2).signals[0], data.signals[0])


def test_rbf_weights_are_in_the_papers_range():
    w = synthetic.rbf(clients=1, signals=2, q=1.0, seed=0).graphs[0]
    assert ((w == 0) | ((w >= 0.7) & (w <= 1))).all()


def test_signals_have_the_stated_covariance():
    data = synthetic.rbf(vertices=6, clients=1, signals=200_000, q=1.0, seed=3, sigma_w=0.2)
    square = matrices(data.graphs[0])
    expected = np.linalg.pinv(np.diag(square.sum(1)) - square) + 0.04 * np.eye(6)
    assert np.allclose(np.cov(data.signals[0].T), expected, atol=0.02 * np.abs(expected).max())


def test_clients_can_differ_in_q_and_in_number_of_signals():
    data = synthetic.rbf(clients=3, signals=[2, 5, 9], q=[1.0, 0.5, 0.0], seed=0)
    assert [len(x) for x in data.signals] == [2, 5, 9]
    shared = [np.count_nonzero((g > 0) & (data.consensus > 0)) for g in data.graphs]
    assert shared[0] == np.count_nonzero(data.consensus)
    assert shared[0] > shared[1]


@pytest.mark.parametrize(
    "options", [{"q": 1.5}, {"signals": [3, 4]}, {"signals": 0}, {"sigma_w": -1.0}, {"q": [0.5, 0.5]}]
)
def test_bad_generator_options_are_refused(options):
    with pytest.raises(TacitError):
        synthetic.rbf(clients=5, **options)


def test_edge_scores_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    w, truth = rng.exponential(size=(2, 3, 40)) * (rng.uniform(size=(2, 3, 40)) < 0.4)
    found = edge_scores(w, truth)
    pairs = list(zip(truth > 0, w > 0, strict=True))
    assert found.precision == pytest.approx(np.mean([precision_score(*pair) for pair in pairs]))
    assert found.recall == pytest.approx(np.mean([recall_score(*pair) for pair in pairs]))
    assert found.f1 == pytest.approx(np.mean([f1_score(*pair) for pair in pairs]))
    assert found.relative_error == pytest.approx(
        np.mean(np.linalg.norm(w - truth, axis=1) / np.linalg.norm(truth, axis=1))
    )
    assert best_edge_scores(w, truth).f1 >= found.f1
    assert edge_scores(np.zeros(5), np.ones(5)) == (0.0, 0.0, 0.0, 1.0)
    with pytest.raises(TacitError, match="must have the same size, got 3 and 6 pairs"):
        edge_scores(np.ones(3), np.ones(6))


def test_community_scores_of_a_block_graph():
    labels = np.repeat([0, 1, 2, 3], 12)
    graph = nx.planted_partition_graph(4, 12, 0.8, 0.02, seed=1)
    assert community_scores(nx.to_numpy_array(graph), labels).nmi == pytest.approx(1.0)
    assert community_scores(np.zeros((48, 48)), labels).ri < 1


def test_reconstruction_is_the_smoothest_signal():
    rng = np.random.default_rng(0)
    square = matrices(rng.exponential(size=15))
    x = rng.normal(size=(4, 6))
    filled = reconstruct(x, [1, 4], square, ridge=0.0)
    laplacian = np.diag(square.sum(1)) - square

    def rough(y):
        return np.einsum("ni,ij,nj->n", y, laplacian, y)

    assert np.array_equal(filled[:, [0, 2, 3, 5]], x[:, [0, 2, 3, 5]])
    for vertex in (1, 4):
        for step in (1e-3, -1e-3):
            moved = filled.copy()
            moved[:, vertex] += step
            assert (rough(moved) >= rough(filled)).all()
    isolated = reconstruct(x, [1], np.zeros((6, 6)))
    assert np.allclose(isolated[:, 1], x[:, [0, 2, 3, 4, 5]].mean(1))
    with pytest.raises(TacitError, match="Between 1 and 5 vertices must be masked, got 0"):
        reconstruct(x, [], square)


def test_true_graph_reconstructs_better_than_another():
    data = synthetic.rbf(clients=2, signals=200, q=0.0, seed=5)
    own, other = (reconstruction_error(data.signals[0], [2, 7, 11], matrices(graph)) for graph in data.graphs)
    assert own < other


@pytest.mark.parametrize("kind", KINDS)
def test_default_parameters_come_close_to_the_best_f1(kind):
    """They also give the requested number of neighbours."""
    data = kind(vertices=20, clients=5, signals=100, seed=4)
    task = Signals(data.signals)
    z = task.mean(0).use_locally()
    beta, rho, lam, *_ = default_parameters(z)
    best = grid_search(task.with_new_ledger(), IGL(), f1_against(data.graphs), beta=np.geomspace(0.003, 0.3, 12)).score
    run = learn(PPGL(beta=beta, rho=rho, lam=lam), data.signals, tolerance=1e-4)
    assert run.converged
    assert edge_scores(run.graphs, data.graphs).f1 > 0.8 * best
    for wanted in (2.0, 8.0):
        graphs = learn(IGL(beta=default_parameters(z, neighbours=wanted).beta), data.signals).graphs
        assert float((graphs > 0).sum()) * 2 / 100 == pytest.approx(wanted, rel=0.1)
    with pytest.raises(TacitError, match="neighbours must be greater than 0 and less than 20"):
        default_parameters(z, neighbours=20)


def test_paper_grid_search(capsys):
    data = synthetic.rbf(clients=3, signals=60, seed=6)
    method = PPGL(K=1, step=0.01, rounds=50)
    found = paper_grid_search(
        Signals(data.signals), method, data.graphs, betas=[0.01, 0.03], rhos=[0.1, 1.0], lams=[0.01, 0.1], progress=True
    )  # fmt: skip
    assert len(found.rows) == 4
    assert found.best.rounds == 50
    assert found.score == max(row["score"] for row in found.rows)
    assert "4/4  rho 1, lam 0.1, score" in capsys.readouterr().err
    with pytest.raises(TacitError, match="no parameter sigma"):
        grid_search(Signals(data.signals), method, f1_against(data.graphs), sigma=[1.0])


def test_grid_search_over_one_release_costs_one_release():
    data = synthetic.rbf(clients=3, signals=60, seed=6)
    task = Signals(data.signals, clip=20.0, noise=Noise.from_seed(0))
    grid_search(task, PPGL(noise=1.0, rounds=20), f1_against(data.consensus, "consensus"), rho=[0.1, 1.0], lam=[0.01])
    assert len(task.ledger) == 1


def test_joint_learning_beats_independent_learning():
    """The paper's finding at its setting: PPGL learns better graphs than IGL."""
    data = synthetic.rbf(clients=5, signals=50, q=0.9, seed=1)
    independent = grid_search(Signals(data.signals), IGL(), f1_against(data.graphs), beta=np.geomspace(0.005, 0.2, 8))
    joint = grid_search(
        Signals(data.signals), PPGL(beta=independent.best.beta, lam=0.02), f1_against(data.graphs), rho=[0.1, 0.5, 1.0]
    )  # fmt: skip
    assert joint.score > independent.score


def test_triangles_and_matrices_are_inverse():
    w = np.random.default_rng(0).normal(size=(3, 10))
    assert np.array_equal(triangles(matrices(w)), w)
