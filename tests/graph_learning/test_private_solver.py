"""Exact solutions that are released: their error bound is public and holds, whatever Newton's method returns."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graph_learning import PPGL, Signals, private_solver
from tacit.graph_learning.private_solver import _proven_error, solution_bound, solution_sensitivity, solve_within
from tacit.graph_learning.problem import ClientProblem, floors
from tacit.graph_learning.solver import Solution, initial_dual, newton
from tests.graph_learning import oracle
from tests.graph_learning.cases import instance, learn

CLIP = 3.0


def public_problem(seed, d, n=2, beta=0.05, zeta=1e-2, signals=20):
    """Problem (9) with a floor from the clip alone, and the public bounds (Δ, C)."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(signals, d)) * 10 ** rng.uniform(-1, 1) for _ in range(n)]
    task = Signals(x, clip=CLIP)
    z = task.mean(0).use_locally()
    con = torch.from_numpy(rng.exponential(size=z.shape[1]) * (rng.uniform(size=z.shape[1]) < 0.4) / d)
    pull = torch.from_numpy(rng.uniform(0, 1, n))
    row = torch.full((n, d), task.row_mean_bound, dtype=torch.float64)
    floor = floors(row, 1.0, 4 * beta + pull, zeta, d)
    return ClientProblem(z, 1.0, beta, zeta, pull, con, floor), task.bounds


def truth(problem):
    """The minimisers by cvxpy."""
    return np.stack(
        [
            oracle.client_solution(z.numpy(), 1.0, problem.beta, problem.zeta, float(pull), problem.con.numpy())
            for z, pull in zip(problem.z, problem.pull, strict=True)
        ]
    )


def returns_nan(problem, start, tolerance):
    found = newton(problem, start, tolerance)
    return Solution(found.w * math.nan, found.u * math.nan, found.error, found.converged)


def returns_a_wrong_graph(problem, start, tolerance):
    """A solver that is wrong and reports success."""
    found = newton(problem, start, tolerance)
    return Solution(found.w * 1.5, found.u, found.error, torch.ones_like(found.converged))


@pytest.mark.parametrize("solver", [newton, returns_nan, returns_a_wrong_graph])
@pytest.mark.parametrize("d", [2, 5, 9])
def test_solution_is_within_the_tolerance_even_if_newton_fails(d, solver, monkeypatch):
    problem, bounds = public_problem(d, d)
    bound = solution_bound(problem, *bounds)
    monkeypatch.setattr(private_solver, "newton", solver)
    found = solve_within(problem, bound, initial_dual(problem, problem.z))
    assert found.converged.all() == (solver is newton)
    assert torch.isfinite(found.u).all()
    away = np.linalg.norm(found.w.numpy() - truth(problem), axis=1)
    assert (away <= bound.tolerance.numpy() + 1e-7).all()  # cvxpy has an error, too
    assert (bound.tolerance.numpy() <= 2e-4 * bounds[0] / problem.kappa.numpy()).all()


def test_a_failure_on_one_of_two_neighbouring_data_sets_stays_within_the_sensitivity(monkeypatch):
    """A fixed value in place of the failed solution would not: it is further away than the sensitivity."""
    problem, bounds = public_problem(3, 6, signals=200)
    bound = solution_bound(problem, *bounds)
    allowed = solution_sensitivity(problem, bounds[0], bound)
    start = initial_dual(problem, problem.z)
    first = solve_within(problem, bound, start).w
    direction = torch.from_numpy(np.random.default_rng(0).uniform(size=problem.z.shape))
    moved = problem.z + torch.from_numpy(bounds[0])[:, None] * direction / direction.norm(dim=1, keepdim=True)
    monkeypatch.setattr(private_solver, "newton", returns_nan)
    second = solve_within(replace(problem, z=moved), bound, start).w
    assert ((first - second).norm(dim=1).numpy() <= allowed).all()
    assert (first.norm(dim=1).numpy() > 10 * allowed).all()


def test_a_round_continues_if_newton_fails(monkeypatch):
    """Two Newton steps are not enough; the run neither stops nor warns, and graphs are finite."""
    signals, parameters = instance(2, d=5, n=3)
    method = PPGL(**parameters, release="rounds", rounds=2, noise=1.0)
    expected = learn(method, signals, clip=5.0)
    monkeypatch.setattr("tacit.graph_learning.solver._MAX_NEWTON_STEPS", 2)
    run = learn(method, signals, clip=5.0)
    assert run.t == 2
    assert run.stopped is None
    assert torch.allclose(run.graphs, expected.graphs, rtol=0.05, atol=1e-3 * float(expected.graphs.max()))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 8), size=st.floats(-8, 0), share=st.floats(0, 1))
def test_proven_error_bounds_the_true_error(seed, d, size, share):
    problem, bounds = public_problem(seed, d, n=1)
    best = newton(problem, tolerance=1e-12).w
    rng = np.random.default_rng(seed)
    noise = torch.from_numpy(rng.normal(size=best.shape) * (rng.uniform(size=best.shape) < share))
    w = (best + 10.0**size * noise).clamp(min=0)
    assert float((w - best).norm()) <= float(_proven_error(problem, w, bounds[1])) + 1e-11


def test_bounds_do_not_depend_on_the_signals():
    problem, bounds = public_problem(1, 6)
    one, other = (solution_bound(replace(problem, z=z), *bounds) for z in (problem.z, 0 * problem.z))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    sensitivities = [solution_sensitivity(replace(problem, z=z), bounds[0], one) for z in (problem.z, 0 * problem.z)]
    assert np.array_equal(*sensitivities)


def test_bad_conditioning_is_refused_for_all_signals():
    signals, _ = instance(2, d=5, n=3)
    method = PPGL(release="rounds", rounds=2, noise=1.0, beta=1e-9, rho=1e-9, zeta=0.0)
    for tables in (signals, [0 * x for x in signals]):
        with pytest.raises(TacitError, match="too badly conditioned to be solved with noise in every round"):
            learn(method, tables, clip=1e4)


def test_weights_that_could_overflow_are_refused_for_all_signals():
    signals, _ = instance(2, d=5, n=3)
    method = PPGL(release="rounds", rounds=2, noise=1.0, K=60, step=1e3)
    for tables in (signals, [0 * x for x in signals]):
        with pytest.raises(TacitError, match="could exceed 1e\\+100 in 60 local steps: use a smaller step"):
            learn(method, tables, clip=5.0)


def exact_gradient(problem, w, i):
    """The gradient of client i in rational arithmetic, continued below the floor."""
    d, alpha, zeta = problem.d, Fraction(problem.alpha), Fraction(problem.zeta)
    first, second = np.triu_indices(d, 1)
    weights = [Fraction(x) for x in w[i].tolist()]
    x = [Fraction(0)] * d
    for a, b, weight in zip(first, second, weights, strict=True):
        x[a] += weight
        x[b] += weight
    floor = [Fraction(m) for m in problem.floor[i].tolist()]
    above = [max(a, m) + zeta for a, m in zip(x, floor, strict=True)]
    dual = [alpha / a + alpha * max(m - s, 0) / a**2 for a, m, s in zip(above, floor, x, strict=True)]
    z, con = ([Fraction(value) for value in part.tolist()] for part in (problem.z[i], problem.con))
    kappa, pull = Fraction(float(problem.kappa[i])), Fraction(float(problem.pull[i]))
    return [
        z[k] + kappa * weights[k] - pull * con[k] - dual[a] - dual[b]
        for k, (a, b) in enumerate(zip(first, second, strict=True))
    ]


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 7), scale=st.floats(-4, 8), zeta=st.sampled_from([0.0, 1e-3, 1.0]))
def test_rounding_error_of_the_gradient_is_below_its_bound(seed, d, scale, zeta):
    """Also at negative weights, and below the floor."""
    problem, bounds = public_problem(seed, d, zeta=zeta)
    w = torch.from_numpy(np.random.default_rng(seed).normal(size=problem.z.shape) * 10.0**scale)
    computed, allowed = problem.gradient(w), problem.gradient_rounding(bounds[1], w.norm(dim=1))
    for i in range(len(w)):
        exact = exact_gradient(problem, w, i)
        off = sum((Fraction(a) - b) ** 2 for a, b in zip(computed[i].tolist(), exact, strict=True))
        assert off <= Fraction(float(allowed[i])) ** 2
