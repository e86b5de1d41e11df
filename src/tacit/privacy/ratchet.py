"""Noise whose key changes every round, so that keys of earlier rounds can be erased."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy.noise import CPU, Noise

_NEXT, _USE = b"tacit/ratchet", b"tacit/noise"
_BYTES = 32


class Ratchet:
    """A one-way chain of keys: k(t + 1) = HKDF(k(t), "tacit/ratchet"). Nobody can compute k(t) from k(t + 1).

    Noise is drawn with HKDF(k(t), "tacit/noise"), so a key that has been used does not give the next one either.

    Attributes:
        position: The first position whose key can still be computed.
        key: The key at this position.
        last_used: The last position whose noise was used; None before the first use.
    """

    def __init__(self, position: int, key: bytes) -> None:
        self.position, self.key = position, key
        self.last_used: int | None = None
        self._reached = position, key
        self._noise: tuple[int, Noise] | None = None

    def noise(self, position: int) -> Noise:
        """Return the noise of a position.

        Raises:
            TacitError: Its key is erased.
        """
        if self._noise is None or self._noise[0] != position:
            self._noise = position, Noise.from_key(_derived(self._key_at(position), _USE))
        self.last_used = position
        return self._noise[1]

    def advanced(self, position: int) -> Ratchet:
        """Return the chain from a later position on, without the earlier keys."""
        later = Ratchet(position, self._key_at(position))
        later.last_used = self.last_used
        return later

    def _key_at(self, position: int) -> bytes:
        if position < self.position:
            raise TacitError(
                f"The noise key of position {position} is erased; the first that is left is {self.position}"
            )
        at, key = self._reached if self._reached[0] <= position else (self.position, self.key)
        for _ in range(at, position):
            key = _derived(key, _NEXT)
        self._reached = position, key
        return key


class RatchetedNoise(Noise):
    """Noise with one key per round. `begin_round` sets the round.

    Shuffles are drawn again in every round until the next shuffle, so they have a chain of their own, whose positions
    are the numbers of the shuffles.

    Privacy:
        Whoever gets the chain at position t can compute the noise and the draws of records of round t and later ones,
        and nothing about earlier ones. `digest_key` and `fingerprint` stay the same over all rounds. They are
        independent of all noise.

    Args:
        identity: A key of its own for digests and for the identifier of the run.
        rounds: The chain of the rounds.
        shuffles: The chain of the shuffles; None if nothing is shuffled with this noise.
    """

    def __init__(self, identity: bytes, rounds: Ratchet, shuffles: Ratchet | None = None) -> None:
        super().__init__(identity, reproducible=True)
        self.rounds, self._round = rounds, rounds.position
        if shuffles is not None:
            self.shuffles = ShuffleNoise(identity, shuffles)

    def begin_round(self, t: int) -> None:
        """Use the key of round t from now on."""
        self._round = t

    def words(
        self,
        purpose: str,
        nodes: npt.NDArray[np.int64],
        step: int | npt.NDArray[np.int64],
        count: int,
        first: int = 0,
        device: torch.device = CPU,
    ) -> Tensor:
        return self.rounds.noise(self._round).words(purpose, nodes, step, count, first, device)


class ShuffleNoise(Noise):
    """Noise with one key per number of a shuffle."""

    def __init__(self, identity: bytes, chain: Ratchet) -> None:
        super().__init__(identity, reproducible=True)
        self.chain = chain

    def words(
        self,
        purpose: str,
        nodes: npt.NDArray[np.int64],
        step: int | npt.NDArray[np.int64],
        count: int,
        first: int = 0,
        device: torch.device = CPU,
    ) -> Tensor:
        steps = np.broadcast_to(np.asarray(step, np.int64), (len(nodes),))
        found = torch.empty(len(nodes), count, dtype=torch.int32)
        for each in np.unique(steps)[::-1]:  # the smallest last: it is the one that must stay
            rows = np.flatnonzero(steps == each)
            words = self.chain.noise(int(each)).words(purpose, nodes[rows], int(each), count, first)
            found[torch.from_numpy(rows)] = words
        return found.to(device)


def _derived(key: bytes, info: bytes) -> bytes:
    return HKDFExpand(SHA256(), _BYTES, info).derive(key)
