"""Properties of mixing matrices: links, components, spectral gap, Dobrushin coefficient.

In this package, entry [i, j] of a matrix is the weight of what i receives from j.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from tacit.errors import TacitError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DENSE_LIMIT = 500  # up to this number of nodes, all eigenvalues are computed
BLOCK_ROWS = 256  # rows that `dobrushin` compares at a time: two blocks of 10,000 columns are 40 MB


def identity(nodes: int) -> sparse.csr_array:
    """Return the sparse identity matrix."""
    return sparse.csr_array(sparse.diags_array(np.ones(nodes), format="csr"))


def pattern(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with every weight replaced by the integer 1."""
    ones = np.ones(matrix.nnz, dtype=np.int32)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def links(matrix: sparse.csr_array) -> tuple[Integers, Integers]:
    """Return the sources and targets of all links except self-loops, sorted by (source, target).

    >>> links(sparse.csr_array([[0.5, 0, 1.0], [0.5, 1.0, 0], [0, 0, 0]]))
    (array([0, 2]), array([1, 0]))
    """
    entries = matrix.tocoo()
    targets, sources = (index[entries.row != entries.col].astype(np.int64) for index in (entries.row, entries.col))
    order = np.lexsort((targets, sources))
    return sources[order], targets[order]


def components(matrix: sparse.csr_array) -> int:
    """Return the number of strongly connected components."""
    from scipy.sparse import csgraph  # slow to import

    return int(csgraph.connected_components(matrix, directed=True, connection="strong", return_labels=False))


def smallest_window(matrices: Sequence[sparse.csr_array]) -> int | None:
    """Return the smallest B such that the union of any B successive graphs of this cycle is strongly connected.

    None if the union of the whole cycle is not strongly connected.

    >>> one_way, back = sparse.csr_array([[1, 0], [1, 1]]), sparse.csr_array([[1, 1], [0, 1]])
    >>> smallest_window([one_way, back]), smallest_window([one_way])
    (2, None)
    """
    patterns = [pattern(matrix) for matrix in matrices]
    if components(sparse.csr_array(sum(patterns[1:], patterns[0]))) > 1:
        return None
    # A sliding window over the cycle. Links are counted, so that a graph that leaves the window can be subtracted.
    union, stop, longest = patterns[0], 1, 1
    for start in range(len(patterns)):
        while components(union) > 1:
            union, stop = union + patterns[stop % len(patterns)], stop + 1
        union, longest = union - patterns[start], max(longest, stop - start)
    return longest


def circulant_column(matrix: sparse.csr_array) -> Floats | None:
    """Return c with matrix[i, j] = c[(i − j) mod N], or None if the matrix is not circulant.

    The eigenvalues of a circulant matrix are the FFT of c, and every row is a shift of the first.

    >>> circulant_column(sparse.csr_array([[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]]))
    array([0.5, 0.5, 0. ])
    """
    nodes = matrix.shape[0]
    column = np.zeros(nodes)
    own = slice(matrix.indptr[0], matrix.indptr[1])
    column[(0 - matrix.indices[own]) % nodes] = matrix.data[own]
    if matrix.nnz != nodes * np.count_nonzero(column):
        return None
    rows = np.repeat(np.arange(nodes), np.diff(matrix.indptr))
    # There are N·|c| distinct entries. If each agrees with c, none of c is missing.
    return column if bool(np.all(matrix.data == column[(rows - matrix.indices) % nodes])) else None


def spectral_gap(matrices: Sequence[sparse.csr_array]) -> float:
    """Return 1 − |λ₂| of the product of these matrices: the share of a disagreement that one cycle removes.

    >>> spectral_gap([sparse.csr_array([[0.75, 0.25], [0.25, 0.75]])])
    0.5
    """
    nodes = matrices[0].shape[0]
    if nodes == 1:
        return 1.0
    columns = [column for column in map(circulant_column, matrices) if column is not None]
    if len(columns) == len(matrices):
        eigenvalues = np.prod([scipy.fft.fft(column) for column in columns], axis=0)
    elif nodes <= DENSE_LIMIT:
        eigenvalues = _all_eigenvalues(matrices)
    else:
        eigenvalues = _leading_eigenvalues(matrices)
    gap = 1 - float(np.sort(np.abs(eigenvalues))[-2])
    return 0.0 if abs(gap) < 1e-12 else gap


def _all_eigenvalues(matrices: Sequence[sparse.csr_array]) -> NDArray[Any]:
    product = matrices[0].toarray()
    for matrix in matrices[1:]:
        product = matrix @ product
    symmetric = np.array_equal(product, product.T)
    return np.linalg.eigvalsh(product) if symmetric else np.linalg.eigvals(product)


def _leading_eigenvalues(matrices: Sequence[sparse.csr_array]) -> NDArray[Any]:
    from scipy.sparse import linalg as sparse_linalg  # slow to import

    nodes = matrices[0].shape[0]
    start = np.random.default_rng(0).random(nodes)  # ARPACK's random start would make the result vary between calls

    def apply(vector: Floats) -> Floats:
        for matrix in matrices:
            vector = matrix @ vector
        return vector

    product = sparse_linalg.LinearOperator((nodes, nodes), matvec=apply, dtype=np.float64)
    symmetric = len(matrices) == 1 and abs(matrices[0] - matrices[0].T).max() < 1e-12
    solve = sparse_linalg.eigsh if symmetric else sparse_linalg.eigs
    try:
        return np.asarray(solve(product, k=2, which="LM", v0=start, ncv=40, maxiter=100, return_eigenvectors=False))
    except sparse_linalg.ArpackNoConvergence:
        if not symmetric:
            raise TacitError(
                f"The spectral gap of this directed graph of {nodes} nodes is too small to compute: "
                f"use at most {DENSE_LIMIT} nodes"
            ) from None
    # The eigenvalues of grids and similar graphs crowd near 1, where the iteration is slow. These graphs are cheap to
    # factorise, so search from just outside both ends of the spectrum.
    near = [
        sparse_linalg.eigsh(matrices[0], k=2, sigma=end, v0=start, return_eigenvectors=False) for end in (1.001, -1.001)
    ]
    return np.concatenate(near)


def largest_laplacian(matrix: sparse.csr_array) -> float:
    """Return λ_u, the largest eigenvalue of D − A of an undirected graph with weight 1 on every link.

    >>> round(largest_laplacian(sparse.csr_array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])), 6)
    3.0
    """
    from scipy.sparse import linalg as sparse_linalg  # slow to import

    source, target = links(matrix)
    nodes = matrix.shape[0]
    adjacency = sparse.csr_array((np.ones(len(source)), (target, source)), shape=(nodes, nodes))
    laplacian = sparse.csr_array(sparse.diags_array(adjacency.sum(axis=1))) - adjacency
    if nodes <= DENSE_LIMIT:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    start = np.random.default_rng(0).random(nodes)
    found = sparse_linalg.eigsh(laplacian, k=1, which="LA", v0=start, return_eigenvectors=False)
    return float(found[0])


def dominating(contractions: Floats) -> tuple[float, float]:
    """Return (C′, λ) with c_k ≤ C′ λ^k for a submultiplicative sequence, c_(j+k) ≤ c_j c_k, given up to k = L.

    If λ^L ≥ c_L, the first L terms suffice: c_(qL+r) ≤ c_L^q c_r ≤ λ^(qL) c_r. The sum C′ / (1 − λ) is minimised.

    >>> dominating(np.array([1.0, 1.0, 0.25]))
    (2.0, 0.5)
    """
    k = np.arange(len(contractions))
    least = max(float(contractions[-1]) ** (1 / k[-1]), 1e-3)
    rates = np.append(least, np.linspace(least, 1, 4000)[1:-1])
    with np.errstate(divide="ignore"):
        heights = np.max(
            np.log(contractions) - k * np.log(rates[:, None]), axis=1
        )  # logarithms, since the values can be huge
    best = int(np.argmin(heights - np.log1p(-rates)))
    return math.exp(heights[best]), float(rates[best])


def dobrushin(matrix: sparse.csr_array, circulant: bool = False) -> float:
    """Return τ(M) = ½ max_ij Σ_k |M_ik − M_jk|, the largest share of a disagreement that remains after x ← M x.

    In a product of circulant matrices every row is a shift of the first, so only the first is compared.

    >>> dobrushin(sparse.csr_array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]))
    0.5
    """
    from scipy.spatial.distance import cdist  # slow to import

    nodes = matrix.shape[0]
    widest = 0.0
    for first in range(0, 1 if circulant else nodes, BLOCK_ROWS):
        rows = matrix[first : first + (1 if circulant else BLOCK_ROWS)].toarray()
        for second in range(first, nodes, BLOCK_ROWS):
            others = matrix[second : second + BLOCK_ROWS].toarray()
            widest = max(widest, float(cdist(rows, others, "cityblock").max()))
    return widest / 2
