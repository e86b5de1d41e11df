"""Leverages by the formula, node by node, in exact rational arithmetic."""

from fractions import Fraction

import numpy as np


def exact_leverage(view, noise):
    """s_i² e_iᵀ Bᵀ (B S² Bᵀ)⁺ B e_i: after removing dependent rows of B, B S² Bᵀ is invertible."""
    rows = independent([[Fraction(entry) for entry in row] for row in view])
    square = [Fraction(s) ** 2 for s in noise]
    inner = [[sum(a * s * b for a, s, b in zip(one, square, other, strict=True)) for other in rows] for one in rows]
    found = []
    for i, s in enumerate(square):
        column = [row[i] for row in rows]
        found.append(s * sum(a * b for a, b in zip(column, solve(inner, column), strict=True)))
    return found


def independent(rows):
    """A subset of the rows that spans the row space."""
    basis, reduced = [], []
    for row in rows:
        left = list(row)
        for pivot, other in reduced:
            factor = left[pivot] / other[pivot]
            left = [a - factor * b for a, b in zip(left, other, strict=True)]
        pivot = next((j for j, entry in enumerate(left) if entry), None)
        if pivot is not None:
            basis.append(row)
            reduced.append((pivot, left))
    return basis


def solve(matrix, right):
    """Solve matrix x = right by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        swap = next(j for j in range(k, len(rows)) if rows[j][k])
        rows[k], rows[swap] = rows[swap], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for j in range(len(rows)):
            if j != k:
                rows[j] = [a - rows[j][k] * b for a, b in zip(rows[j], rows[k], strict=True)]
    return [row[-1] for row in rows]


def grouped(groups):
    """Exact weights (n, n) of a round in which each group of nodes averages."""
    n = sum(map(len, groups))
    weights = [[Fraction(0)] * n for _ in range(n)]
    for group in groups:
        for i in group:
            for j in group:
                weights[i][j] = Fraction(1, len(group))
    return weights


def floats(matrix):
    return np.array([[float(entry) for entry in row] for row in matrix])
