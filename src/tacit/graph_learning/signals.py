"""The clients' private signals. Methods use them only through two statistics with proven sensitivities."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.differences import exceeds_clip, is_constant, mean_differences, mean_rounding_error
from tacit.graph_learning.statistic import PURPOSES, bounded_gram, gram_differences
from tacit.graph_learning.tables import checked_tables
from tacit.graph_learning.triangle import pair_count
from tacit.privacy import Array, Bounded, Ledger, Noise, ReleaseContext, Sampling

CLIP_KEY = "clip"  # a key of [algorithm] that is a parameter of `Signals`, not of the method
_LARGEST_CLIP = 1e100  # beyond it, or below its inverse, noise would overflow or underflow


class Signals:
    """The signals of every hosted client: tables (N_i, d) with one row per signal and one column per vertex.

    A signal x enters as its squared differences z = ((x_i − x_j)²) over all pairs of vertices, scaled down to norm
    C = `clip` if they are longer. A client's data enter as z̄, the mean of its z (Eqs 5, 9). They can also enter as the
    Gram matrix of unit signals (`tacit.graph_learning.statistic`), without a clip.

    Args:
        signals: One table per client. Clients may have different numbers of signals N_i.
        clip: C, or None for no clipping. Noise on squared differences needs it. Choose it without looking at the
            signals.
        noise: The source of noise; by default secret noise from the operating system. `Noise.from_seed` makes a
            simulation, which protects nobody.
        ledger: The ledger that records the releases; by default a new one in memory.
        nodes: The clients' ids in the network; by default 0, 1, ….

    Privacy:
        A record is one signal. Replace one signal of client i by any other; N_i is public. Then z̄ moves by
        (z − z′)/N_i. Both z and z′ have norm at most C. They are squares times a positive factor, so they have no
        negative entry, and zᵀz′ ≥ 0. Hence ‖z − z′‖² = ‖z‖² + ‖z′‖² − 2 zᵀz′ ≤ 2C², and the L2 sensitivity of z̄ is
        √2 C/N_i. Signals with a single peak, at two different vertices, reach √(1 − 1/(d − 1)) of this bound.
        (Corollary 1 of the paper uses 2C/N_i.) `sensitivity` adds the rounding error of both z̄
        (`tacit.graph_learning.differences`), so the bound holds for the computed floats of all finite signals.

        Only form, type and finiteness of the signals are checked. An error about their content would distinguish
        neighbouring data sets.

    Example:
        (1, 9, 4) has norm 9.9, so it is scaled by 0.909; (0, 1, 1) is not changed.

        >>> signals = Signals([[[0.0, 1.0, 3.0], [1.0, 1.0, 0.0]]], clip=9.0)
        >>> signals.mean(step=0).use_locally()
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
        self.clients = checked_tables(signals, self.nodes)
        if clip is not None and not 1 / _LARGEST_CLIP <= clip <= _LARGEST_CLIP:
            raise TacitError(f"clip must be between {1 / _LARGEST_CLIP:g} and {_LARGEST_CLIP:g}, got {clip}")
        self.clip, self.d = clip, self.clients[0].shape[1]
        self.sizes = np.array([len(x) for x in self.clients], np.int64)
        self.noise = noise or Noise.from_system()
        self.ledger = Ledger() if ledger is None else ledger
        self._z = torch.stack([torch.from_numpy(mean_differences(x, clip)) for x in self.clients])
        self._released: list[Tensor] = []

    def without_records(self) -> Signals:
        """Return the task as a method sees it: it has `mean`, `gram` and `bounded`, but no signals."""
        seen = copy.copy(self)
        del seen.__dict__["clients"], seen.__dict__["_z"]
        seen.mean = self.mean  # type: ignore[method-assign]
        seen.gram = self.gram  # type: ignore[method-assign]
        seen.require_variation = self.require_variation  # type: ignore[method-assign]
        return seen

    if not TYPE_CHECKING:  # a type checker then still finds misspelt attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name in ("clients", "_z"):
                raise TacitError("A method has no access to the signals: use task.mean or task.gram")
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def n(self) -> int:
        """The number of hosted clients."""
        return len(self.sizes)

    @property
    def p(self) -> int:
        """The number of pairs of vertices."""
        return pair_count(self.d)

    @property
    def release_context(self) -> ReleaseContext:
        """The clients' ids, ledger and noise, which a mechanism needs to release their values."""
        return ReleaseContext(self.nodes, self.ledger, self.noise, self._note_release)

    def has_released(self, z: Tensor) -> bool:
        """Whether z was released or computed from a release, with negative entries as they are or set to 0."""
        return any(torch.equal(z, known) or torch.equal(z, known.clamp(min=0)) for known in self._released)

    @property
    def sampling(self) -> Sampling:
        """Every release uses all signals. N_i is public, so neighbouring data sets differ in one signal's content."""
        return Sampling("none", np.ones(self.n), "replace-one")

    @property
    def sensitivity(self) -> Array | None:
        """√2 C/N_i and rounding, the L2 sensitivity of each client's z̄, (n,); None without a clip."""
        if self.clip is None:
            return None
        return np.asarray(self.clip * (np.sqrt(2.0) / self.sizes + 2 * self._rounding))

    @property
    def bounds(self) -> tuple[Array, float]:
        """The sensitivity of z̄ (n,), and C and rounding, a bound on its norm. Both are public. They need a clip."""
        assert self.clip is not None
        assert self.sensitivity is not None
        return self.sensitivity, self.clip * (1 + float(self._rounding.max()))

    @property
    def row_mean_bound(self) -> float | None:
        """C/√(d − 1), a public bound on the mean of z̄ over the d − 1 pairs of a vertex; None without a clip."""
        return None if self.clip is None else self.bounds[1] / float(np.sqrt(self.d - 1))

    @property
    def clipped_share(self) -> Array:
        """The share of each client's signals that the clip shortens, (n,). It is computed from the signals: keep it
        private."""
        if self.clip is None:
            return np.zeros(self.n)
        return np.array([exceeds_clip(x, self.clip).mean() for x in self.clients])

    def require_variation(self) -> None:
        """Raise a `TacitError` if all signals of a client are constant. Only for runs without privacy: it depends on
        the signals."""
        for node, x in zip(self.nodes, self.clients, strict=True):
            if is_constant(x):
                raise TacitError(
                    f"Client {node}: every signal is constant over the vertices, so no graph can be learned"
                )

    def mean(self, step: int, purpose: str = PURPOSES["differences"]) -> Bounded:
        """Return z̄ of every client, (n, p). It can be released by a mechanism or used inside the client."""
        if self.clip is None and not bool(torch.isfinite(self._z).all()):  # without a clip nothing is private
            raise TacitError("The signals are too large: their squares overflow. Use other units, or set clip")
        self.ledger.open(step, purpose)
        return self.bounded(self._z.clone(), self.sensitivity, step, purpose)

    def gram(self, step: int) -> Bounded:
        """Return the Gram matrix of every client's unit signals, as a triangle; `gram_differences` makes a z of it."""
        return bounded_gram(self.clients, self.sampling.relation, step, self.release_context)

    def bounded(self, value: Tensor, sensitivity: Array | None, step: int, purpose: str) -> Bounded:
        """Return a value (n, …) computed from these signals together with its proven L2 sensitivity."""
        return Bounded(value, sensitivity, "l2", self.sampling, step, purpose, self.release_context)

    def with_new_ledger(self) -> Signals:
        """Return the same signals with an empty ledger, for another run.

        Its noise is new too, unless it is simulated. The two runs together cost what both ledgers record.
        """
        other = copy.copy(self)
        other.ledger, other.noise, other._released = Ledger(), self._other_noise(), []
        return other

    def host(self, rows: Sequence[int], ledger: Ledger | None = None) -> Signals:
        """Return the signals of the clients in these rows only, as another process would host them.

        Its noise is new, unless it is simulated: two runs with the same noise would reveal the exact values.
        """
        chosen = [self.clients[row] for row in rows]
        return Signals(chosen, clip=self.clip, noise=self._other_noise(), ledger=ledger, nodes=self.nodes[list(rows)])

    def _note_release(self, step: int, purpose: str, value: Tensor, scale: Array) -> None:
        if purpose == PURPOSES["differences"]:
            self._released.append(value.clone())
        elif purpose == PURPOSES["gram"]:
            self._released.append(gram_differences(value, self.sizes))

    def _other_noise(self) -> Noise:
        return self.noise if self.noise.simulated else Noise.from_system()

    @property
    def _rounding(self) -> Array:
        """Bounds on the rounding errors of the clients' z̄, divided by C, (n,)."""
        return np.array([mean_rounding_error(int(n)) for n in self.sizes])
