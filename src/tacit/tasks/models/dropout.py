"""Dropout whose masks are a function of a key per record, so that a run can be repeated.

Privacy:
    A mask is a function of the noise's key, the node, the step and the position of the record in its shard. It depends
    on no feature, no label and no other record, and a record keeps its mask whichever records are drawn with it. For
    fixed masks, the clipped gradients of two neighbouring data sets therefore differ by one clipped gradient, as
    without dropout: the sensitivity is unchanged. The guarantee holds for every choice of the masks, so it also holds
    for random ones. The masks come from the secret noise of a node and are never sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks.models.per_record import per_record
from tacit.tasks.splitmix import STEP as _STEP
from tacit.tasks.splitmix import mixed as _mixed
from tacit.tasks.splitmix import shifted as _shifted

_PER_CALL = 1 << 40  # numbers of one call of a layer
_BITS = 53
_ALPHA = -1.7580993408473766  # the value of SELU at −∞


def mask_keys(noise: Noise, nodes: npt.NDArray[np.int64], step: int, records: Tensor) -> Tensor:
    """Return one key per record (n, B), for the positions `records` (n, B) in the shards of the hosted nodes.

    >>> keys = mask_keys(Noise.from_seed(0), np.array([3, 5]), 7, torch.tensor([[0, 9], [2, 9]]))
    >>> bool((keys[1:] == mask_keys(Noise.from_seed(0), np.array([5]), 7, torch.tensor([[2, 9]]))).all())
    True
    """
    words = noise.words("dropout", nodes, step, 2).to(torch.int64)
    return _mixed(((words[:, :1] << 32) ^ words[:, 1:]) + _STEP * (records + 1))


class MaskStream:
    """The masks of one forward pass. Without keys there is no dropout, as in evaluation.

    Attributes:
        keys: The keys (B,) of the records of the pass; None outside of it.
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self._calls = 0

    @contextmanager
    def using(self, keys: Tensor | None) -> Iterator[None]:
        """Use the masks of these keys (B,) in one forward pass."""
        self.keys, self._calls = keys, 0
        try:
            yield
        finally:
            self.keys, self._calls = None, 0

    def kept(self, shape: tuple[int, ...], p: float) -> Tensor | None:
        """Return a new mask, True with probability 1 − p; None without keys.

        For several records, the first axis of `shape` must be that of the records.
        """
        if self.keys is None:
            return None
        records = len(self.keys)
        if records > 1 and shape[0] != records:
            raise TacitError("dropout of a batch needs the records on the first axis")
        first = self._calls * _PER_CALL + 1
        self._calls += 1
        numbers = torch.arange(first, first + math.prod(shape) // records, device=self.keys.device)
        words = _mixed(self.keys.unsqueeze(1) + _STEP * numbers)
        return (_shifted(words, 64 - _BITS) >= int(p * 2**_BITS)).view(shape)

    def drop(self, x: Tensor, p: float) -> Tensor:
        """Return x with each number dropped with probability p, and the others divided by 1 − p."""
        return _scaled(x, self.kept(tuple(x.shape), p), p)


def _scaled(x: Tensor, kept: Tensor | None, p: float) -> Tensor:
    if kept is None:
        return x
    return torch.where(kept, x / (1 - p), 0.0) if p < 1 else torch.zeros_like(x)


def _alpha_scaled(x: Tensor, kept: Tensor | None, p: float) -> Tensor:
    """Return x with dropped numbers at the lowest value of SELU, scaled to keep mean and variance."""
    if kept is None:
        return x
    if p == 1:
        return torch.zeros_like(x)
    scale = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    result: Tensor = torch.where(kept, x, _ALPHA) * scale - scale * _ALPHA * p
    return result


def _channels(shape: torch.Size, unbatched: int | None = None) -> tuple[int, ...]:
    """Return the shape of a mask that keeps or drops whole channels. `unbatched` is the dimension without records."""
    kept = 1 if len(shape) == unbatched else 2
    return (*shape[:kept], *[1] * (len(shape) - kept))


class _Keyed:
    """The common part of all layers: the rate and the masks of the model."""

    p: float
    stream: MaskStream

    def _kept(self, shape: tuple[int, ...]) -> Tensor | None:
        return self.stream.kept(shape, self.p)


@per_record
class KeyedDropout(_Keyed, nn.Dropout):
    """`nn.Dropout` with the masks of a stream."""

    def forward(self, x: Tensor) -> Tensor:
        return _scaled(x, self._kept(tuple(x.shape)), self.p)


@per_record
class KeyedDropout1d(_Keyed, nn.Dropout1d):
    """`nn.Dropout1d` with the masks of a stream."""

    def forward(self, x: Tensor) -> Tensor:
        return _scaled(x, self._kept(_channels(x.shape, 2)), self.p)


@per_record
class KeyedDropout2d(_Keyed, nn.Dropout2d):
    """`nn.Dropout2d` with the masks of a stream."""

    def forward(self, x: Tensor) -> Tensor:
        return _scaled(x, self._kept(_channels(x.shape)), self.p)


@per_record
class KeyedDropout3d(_Keyed, nn.Dropout3d):
    """`nn.Dropout3d` with the masks of a stream."""

    def forward(self, x: Tensor) -> Tensor:
        return _scaled(x, self._kept(_channels(x.shape, 4)), self.p)


@per_record
class KeyedAlphaDropout(_Keyed, nn.AlphaDropout):
    """`nn.AlphaDropout` with the masks of a stream."""

    def forward(self, x: Tensor) -> Tensor:
        return _alpha_scaled(x, self._kept(tuple(x.shape)), self.p)


@per_record
class KeyedFeatureAlphaDropout(_Keyed, nn.FeatureAlphaDropout):
    """`nn.FeatureAlphaDropout` with the masks of a stream."""

    def forward(self, x: Tensor) -> Tensor:
        return _alpha_scaled(x, self._kept(_channels(x.shape)), self.p)


def is_active(layer: Any) -> bool:
    """Return whether a layer of torch with a rate `p` or `dropout` drops anything in its present mode."""
    return bool(layer.training) and getattr(layer, "p", getattr(layer, "dropout", 0.0)) > 0
