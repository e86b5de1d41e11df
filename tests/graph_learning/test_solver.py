"""The exact solution of a client's problem, compared with cvxpy and with its proven error."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.graph_learning import IGL
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.solver import solve
from tacit.graph_learning.triangle import degrees, pair_sums, to_matrix, to_triangle
from tests.graph_learning import oracle
from tests.graph_learning.cases import problem


@pytest.mark.parametrize("d", [5, 20, 50])
@pytest.mark.parametrize(("pull", "zeta"), [(0.0, 0.0), (0.0, 0.1), (1.0, 1e-3)])
def test_solution_agrees_with_cvxpy(d, pull, zeta):
    own = problem(d, d, pull, zeta)
    solution = solve(own)
    for i in range(len(own.z)):
        z, con, strength = own.z[i].numpy(), own.con.numpy(), float(own.pull[i])
        w, theirs = solution.w[i].numpy(), oracle.client_solution(z, 1.0, own.beta, zeta, strength, con)
        assert np.linalg.norm(w - theirs) <= 1e-4 * np.linalg.norm(theirs)
        ours, best = (oracle.objective(x, z, 1.0, own.beta, zeta, strength, con) for x in (w, theirs))
        assert ours <= best + 1e-9 * abs(best)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(2, 30),
    scale=st.floats(-4, 4),
    beta=st.floats(-4, 3),
    zeta=st.sampled_from([0.0, 1e-6, 1.0]),
)
def test_any_instance_is_solved(seed, d, scale, beta, zeta):
    """In any units, and also if noise makes entries of z negative."""
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(10.0**scale * rng.normal(0.5, 1, size=(2, d * (d - 1) // 2)))
    b = 10.0 ** (2 * scale + beta)
    kappa = torch.full((2,), 4 * b, dtype=torch.float64)
    floor = floors(row_means(z), 1.0, kappa, zeta, d)
    own = ClientProblem(z, 1.0, b, zeta, 0 * kappa, z.new_zeros(z.shape[1]), floor)
    solution = solve(own)
    assert torch.isfinite(solution.w).all()
    assert (solution.w >= 0).all()
    assert own.residual(solution.w).max() < 1e-6
    assert (degrees(solution.w, d) >= own.floor * (1 - 1e-6)).all()  # the step size relies on this


def test_proven_error_bounds_the_true_error():
    """A solution that is stopped early is at most the reported error away from the true one."""
    own = problem(3, 15)
    true = solve(own, tolerance=1e-12).w
    for tolerance in (1e-1, 1e-2, 1e-3):
        early = solve(own, tolerance=tolerance)
        off = (early.w - true).norm(dim=1) / early.w.norm(dim=1)
        assert (off <= early.error * (1 + 1e-9)).all()
        assert (early.error <= tolerance).all()


def test_a_thousand_vertices_are_solved():
    own = problem(0, 1000, pull=0.0, n=1)
    solution = solve(own)
    assert solution.error.max() <= 1e-9
    assert own.residual(solution.w).max() < 1e-6


def test_gradient_steps_decrease_the_objective_on_a_thousand_vertices():
    """The default step size works with momentum too."""
    own = problem(0, 1000, pull=0.0, n=1, zeta=0.0)
    method = IGL(beta=own.beta, zeta=0.0, K=10)
    w = before = torch.full_like(own.z, 2 / 999)
    values = [float(own.objective(w))]
    for _ in range(5):
        w, before = method.gradient_steps(own, w, before)
        w = w.clamp(min=0)
        values.append(float(own.objective(w)))
    assert np.isfinite(values).all()
    assert (np.diff(values) < 0).all()


def test_batches_do_not_change_the_solution(monkeypatch):
    own = problem(1, 12, n=5)
    together = solve(own).w
    monkeypatch.setattr("tacit.graph_learning.solver._BATCH_ENTRIES", 1)
    assert torch.allclose(solve(own).w, together, rtol=1e-9, atol=1e-12)


def test_triangle_operations_agree_with_the_matrix():
    w = torch.rand(3, 10, dtype=torch.float64)
    square = to_matrix(w, 5)
    s = torch.from_numpy(oracle.operator(5))
    assert torch.equal(to_triangle(square), w)
    assert torch.equal(square, square.mT)
    assert torch.allclose(degrees(w, 5), square.sum(2))
    assert torch.allclose(degrees(w, 5), w @ s.T)
    v = torch.rand(3, 5, dtype=torch.float64)
    assert torch.allclose(pair_sums(v), v @ s)


def test_gradient_agrees_with_autograd():
    own = problem(2, 7)
    w = (torch.rand(2, 21, dtype=torch.float64) + 0.3).requires_grad_()
    own.objective(w).sum().backward()
    assert torch.allclose(own.gradient(w.detach()), w.grad, rtol=1e-10)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), d=st.integers(3, 12), zeta=st.sampled_from([0.0, 1e-3, 0.5]))
def test_lipschitz_constant_and_strong_convexity_hold_everywhere(seed, d, zeta):
    """Also at negative weights."""
    own = problem(seed, d, zeta=zeta)
    rng = np.random.default_rng(seed)
    a, b = (torch.from_numpy(rng.normal(size=own.z.shape) * 10 ** rng.uniform(-3, 1)) for _ in range(2))
    change = (own.gradient(a) - own.gradient(b)).norm(dim=1)
    assert (change <= own.lipschitz * (a - b).norm(dim=1) * (1 + 1e-9)).all()
    along = ((own.gradient(a) - own.gradient(b)) * (a - b)).sum(1)
    assert (along >= own.kappa * (a - b).square().sum(1) * (1 - 1e-9)).all()
