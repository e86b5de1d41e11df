"""The clients' private signals, and the one thing that an algorithm can ask of them: z̄, with its sensitivity."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.triangle import pair_count, to_triangle
from tacit.privacy.bounded import Bounded, ReleaseContext, Sampling
from tacit.privacy.ledger import Array, Ledger
from tacit.privacy.noise import Noise

PURPOSE = "mean of squared differences"
_SHORT = 1 - 1e-12  # of the clip bound, which rounding must not exceed


class Signals:
    """Every hosted client's signals (N_i, d), a row a signal, a column a vertex. Clients may differ in N_i.

    A signal x enters as its squared differences z = ((x_i − x_j)²) over all pairs, scaled down to the norm C = `clip`
    where they are longer, and the data of a client enter as z̄, the mean of its z (Eqs 5, 9). The record that privacy is
    about is one signal.

    **Sensitivity.** Let one signal of client i be replaced by any other; N_i is public. Then z̄ moves by (z − z′)/N_i.
    Both z and z′ have a norm of at most C and, being squares times a positive scale, no negative entry, so zᵀz′ ≥ 0 and
    ‖z − z′‖² = ‖z‖² + ‖z′‖² − 2 zᵀz′ ≤ 2C². Hence the L2 sensitivity of z̄ is √2 C/N_i; signals with a
    single peak, at different vertices, come within √(1 − 1/(d − 1)) of it. (Corollary 1 of the paper takes 2C/N_i.)

    >>> signals = Signals([[[0.0, 1.0, 3.0], [1.0, 1.0, 0.0]]], clip=9.0)
    >>> signals.mean(step=0).use_locally()  # (1, 9, 4) has norm 9.9, so it counts for 0.909 of itself; (0, 1, 1) stays
    tensor([[0.4546, 4.5911, 2.3183]], dtype=torch.float64)
    >>> signals.sensitivity.round(4).tolist()
    [6.364]
    """

    def __init__(
        self,
        signals: Sequence[npt.ArrayLike],
        *,
        clip: float | None = None,
        noise: Noise | None = None,
        ledger: Ledger | None = None,
        nodes: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.nodes = np.arange(len(signals)) if nodes is None else nodes
        if len(self.nodes) == 0:
            raise TacitError("there are no signals: give those of at least one client")
        self.clients = [_checked(x, int(node)) for x, node in zip(signals, self.nodes, strict=True)]
        counts = [x.shape[1] for x in self.clients]
        if len(set(counts)) > 1:
            other = next(i for i, count in enumerate(counts) if count != counts[0])
            raise TacitError(
                f"client {self.nodes[0]} has signals on {counts[0]} vertices and client {self.nodes[other]} on "
                f"{counts[other]}: all clients' signals live on the same vertices"
            )
        if clip is not None and not 0 < clip < np.inf:
            raise TacitError(f"clip must be positive and finite, not {clip}")
        self.clip, self.d = clip, counts[0]
        self.sizes = np.array([len(x) for x in self.clients], np.int64)
        self.noise = noise or Noise.from_seed(0)
        self.ledger = Ledger() if ledger is None else ledger
        with np.errstate(over="ignore", invalid="ignore"):
            self._z = torch.stack([torch.from_numpy(mean_differences(x, clip)) for x in self.clients])
        if not bool(torch.isfinite(self._z).all()):
            raise TacitError("signals are so large that their squares overflow: give them in other units")

    @property
    def n(self) -> int:
        """Clients hosted here."""
        return len(self.clients)

    @property
    def p(self) -> int:
        """Pairs of vertices."""
        return pair_count(self.d)

    @property
    def release_context(self) -> ReleaseContext:
        """Whose values these are: what a mechanism needs to release them."""
        return ReleaseContext(self.nodes, self.ledger, self.noise)

    @property
    def sampling(self) -> Sampling:
        """All signals take part in everything; N_i is public, so neighbours differ in one signal's content."""
        return Sampling("none", np.ones(self.n), "replace-one")

    @property
    def sensitivity(self) -> Array | None:
        """How far one signal moves z̄ of each client, in L2: √2 C/N_i; None without a clip."""
        return None if self.clip is None else np.sqrt(2.0) * self.clip / self.sizes

    @property
    def row_mean_bound(self) -> float | None:
        """A public bound on the mean of z̄ over the d − 1 pairs of a vertex: at most C/√(d − 1)."""
        return None if self.clip is None else self.clip / float(np.sqrt(self.d - 1))

    @property
    def clipped_share(self) -> Array:
        """The share of each client's signals that the clip shortens: a measurement, which nothing protects."""
        if self.clip is None:
            return np.zeros(self.n)
        return np.array([(lengths(x) > self.clip).mean() for x in self.clients])

    def mean(self, step: int, purpose: str = PURPOSE) -> Bounded:
        """z̄ of every client (n, p), which leaves only by a mechanism's `release`, or is kept."""
        self.ledger.open(step, purpose)
        return self.bounded(self._z.clone(), self.sensitivity, step, purpose)

    def bounded(self, value: Tensor, sensitivity: Array | None, step: int, purpose: str) -> Bounded:
        """A value (n, …) made of these signals, with the sensitivity that its maker has proven."""
        return Bounded(value, sensitivity, "l2", self.sampling, step, purpose, self.release_context)

    def with_new_ledger(self) -> Signals:
        """The same signals with an empty ledger: for a run of its own, whose noise is its own too unless it is a
        simulation's. Two runs cost what both ledgers say together."""
        other = copy.copy(self)
        other.ledger = Ledger()
        if not self.noise.simulated:
            other.noise = Noise.from_system()
        return other

    def host(self, rows: Sequence[int], ledger: Ledger | None = None) -> Signals:
        """The same signals with only these rows' clients, as another process would host them."""
        chosen = [self.clients[row] for row in rows]
        return Signals(chosen, clip=self.clip, noise=self.noise, ledger=ledger, nodes=self.nodes[list(rows)])


def mean_differences(x: Array, clip: float | None = None) -> Array:
    """z̄ (p,) of signals (N, d): a weighted Gram matrix, without any N-by-p array."""
    centred = _centred(x)
    share = np.ones(len(x)) if clip is None else np.minimum(1.0, _SHORT * clip / np.maximum(lengths(x), 1e-300))
    gram = torch.from_numpy((centred * (share / len(x))[:, None]).T @ centred)
    own = gram.diagonal()
    mean: Array = to_triangle(own[:, None] + own[None, :] - 2 * gram).clamp_(min=0).numpy()
    return mean


def lengths(x: Array) -> Array:
    """‖z‖ of each signal (N,): Σ_{i<j} (x_i − x_j)⁴ = d m₄ − 4 m₁ m₃ + 3 m₂² with m_k = Σ x_i^k; centred, m₁ = 0."""
    squares = _centred(x) ** 2
    total: Array = np.sqrt(x.shape[1] * (squares**2).sum(1) + 3 * squares.sum(1) ** 2)
    return total


def _centred(x: Array) -> Array:
    """Signals less their means, which differences do not notice. Far from 0 one subtraction leaves a mean behind, and a
    length that takes it for 0 would come out short: so it is done twice."""
    once = x - x.mean(1, keepdims=True)
    twice: Array = once - once.mean(1, keepdims=True)
    return twice


def _checked(signals: npt.ArrayLike, client: int) -> Array:
    try:
        x = np.asarray(signals, np.float64)
    except (TypeError, ValueError):
        raise TacitError(f"the signals of client {client} are not a table of numbers, a row a signal") from None
    if x.ndim != 2:
        raise TacitError(
            f"the signals of client {client} have {x.ndim} axes: they are a table, a row a signal, a column a vertex"
        )
    if x.shape[1] < 2:
        raise TacitError(f"the signals of client {client} live on {x.shape[1]} vertex: a graph needs at least 2")
    if len(x) < 2:
        raise TacitError(f"client {client} has {len(x)} signal: to learn a graph from, it needs at least 2")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise TacitError(
            f"the signals of client {client} hold a value that is not finite, in row {row}, column {column}: "
            "fill or leave out what is missing"
        )
    if (np.ptp(x, axis=1) <= 1e-12 * np.abs(x).max(1)).all():
        raise TacitError(
            f"every signal of client {client} is constant over the vertices: no graph can be told from that"
        )
    return x
