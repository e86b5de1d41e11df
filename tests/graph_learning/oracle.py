"""Algorithm 1, implemented independently from the paper: one client at a time, with dense matrices."""

import warnings

import cvxpy as cp
import numpy as np


def operator(d):
    """The matrix S with S w = W 1."""
    rows, columns = np.triu_indices(d, 1)
    s = np.zeros((d, len(rows)))
    s[rows, np.arange(len(rows))] = s[columns, np.arange(len(rows))] = 1
    return s


def differences(x):
    """The squared differences z_n of each signal, (N, p)."""
    rows, columns = np.triu_indices(x.shape[1], 1)
    return (x[:, rows] - x[:, columns]) ** 2


def clipped_mean(x, clip):
    z = differences(x)
    return (z / np.maximum(1, np.linalg.norm(z, axis=1) / clip)[:, None]).mean(0)


def unit_differences(x):
    """The mean squared differences of signals that are centred and have mean square 1; constant ones are 0."""
    centred = x - x.mean(1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return differences(centred / norms * np.sqrt(x.shape[1])).mean(0)


def objective(w, z, alpha, beta, zeta, pull=0.0, con=0.0):
    """The objective of problem (9)."""
    d = round((1 + np.sqrt(1 + 8 * len(w))) / 2)
    fit = z @ w - alpha * np.log(operator(d) @ w + zeta).sum() + 2 * beta * w @ w
    return fit + pull / 2 * np.sum((w - con) ** 2)


def ppgl(zs, *, alpha, beta, rho, lam, zeta, eta, xi, K, T, e_gamma, w0, gamma=None):
    """Run Algorithm 1 on the clients' z̄ with a fixed η. Return (w, w_con, γ) of every round."""
    clients, s = len(zs), operator(round((1 + np.sqrt(1 + 8 * zs.shape[1])) / 2))
    gammas = [1 / clients if gamma is None else gamma] * clients
    con = w0.copy()
    now, before = [w0.copy() for _ in zs], [w0.copy() for _ in zs]
    rounds = []
    for _ in range(T):
        for i in range(clients):
            for _ in range(K):
                ex = now[i] + xi * (now[i] - before[i])
                gradient = zs[i] - alpha * s.T @ (1 / (s @ ex + zeta)) + 4 * beta * ex
                raw = ex - eta * (gradient + rho * gammas[i] * (ex - con))
                before[i], now[i] = now[i], np.maximum(raw, 0)
        total = sum(gammas)
        average = sum(g * w for g, w in zip(gammas, now, strict=True)) / total
        mu = lam / (rho * total)
        con = np.sign(average) * np.maximum(np.abs(average) - mu, 0)
        if gamma is None:
            gammas = [1 / (2 * np.linalg.norm(w - con) + e_gamma) for w in now]
        rounds.append((np.array(now), con.copy(), np.array(gammas)))
    return rounds


def client_solution(z, alpha, beta, zeta, pull, con):
    """Solve problem (9) with cvxpy."""
    d = round((1 + np.sqrt(1 + 8 * len(z))) / 2)
    w = cp.Variable(len(z), nonneg=True)
    cost = z @ w - alpha * cp.sum(cp.log(operator(d) @ w + zeta)) + 2 * beta * cp.sum_squares(w)
    minimise(cost + pull / 2 * cp.sum_squares(w - con))
    return np.maximum(w.value, 0)


def joint_solution(zs, alpha, beta, zeta, rho, lam, gamma=None):
    """Solve problem (8) with cvxpy: with fixed weights γ, or with ρ/2 Σ ‖w_i − w_con‖, the limit of (16) at ε_γ = 0."""
    d = round((1 + np.sqrt(1 + 8 * zs.shape[1])) / 2)
    ws = [cp.Variable(zs.shape[1], nonneg=True) for _ in zs]
    con = cp.Variable(zs.shape[1])
    cost = lam * cp.norm1(con)
    for z, w in zip(zs, ws, strict=True):
        cost += z @ w - alpha * cp.sum(cp.log(operator(d) @ w + zeta)) + 2 * beta * cp.sum_squares(w)
        cost += rho / 2 * (cp.norm2(w - con) if gamma is None else gamma * cp.sum_squares(w - con))
    minimise(cost)
    return np.array([w.value for w in ws]), con.value


def minimise(cost):
    """Minimise without cvxpy's warning about its tolerance: the tests compare objectives themselves."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
        cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL, **tolerances)
