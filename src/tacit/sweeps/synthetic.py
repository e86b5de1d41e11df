"""Synthetic records with the public facts of a data set: shape, target and number of records."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.tasks import Dataset, Target

_SPREAD = 1.0  # standard deviation of a record around the centre of its class, relative to the centres


def synthetic_records(data: Dataset, seed: int = 0, most: int | None = None) -> Dataset:
    """Return records with the same shape, target and number as those of `data`.

    A record is the random centre of its class plus noise. If the target is no class, the centre is a random direction
    times the target, or the sum of the random directions of the labels that are set. Records are in [0, 1], as pixels
    and scaled columns are.

    Privacy:
        Only public facts of `data` are used: no value of a record has an influence.

    Args:
        data: The data set.
        seed: The seed of the records.
        most: The largest number of records; None: as many as in `data`.

    Raises:
        TacitError: The records are tokens.
    """
    if data.tokens:
        raise TacitError(f"data set {data.name}: synthetic records are numbers, but the records are tokens")
    generator = torch.Generator().manual_seed(seed)
    train, test = (min(count, most or count) for count in (len(data.y), max(200, len(data.test_y))))
    y = _targets(data.target, train + test, generator)
    directions = torch.randn(max(1, len(data.target.labels)), *data.inputs, generator=generator)
    noise = torch.randn(train + test, *data.inputs, generator=generator)
    x = torch.sigmoid(_centres(data.target, y, directions) + _SPREAD * noise)
    return Dataset("synthetic", x[:train], y[:train], x[train:], y[train:], data.target)


def _targets(target: Target, count: int, generator: torch.Generator) -> Tensor:
    """Return random targets, as a data set has them: every class, label and number is equally likely."""
    if target.kind == "class":
        return torch.randint(0, target.classes, (count,), generator=generator)
    if target.kind == "labels":
        return torch.randint(0, 2, (count, *target.shape), generator=generator).float()
    low, high = target.range or (0.0, 1.0)
    values = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
    return target.encode(values.floor() if target.kind == "count" else values)


def _centres(target: Target, y: Tensor, directions: Tensor) -> Tensor:
    if target.kind == "class":
        return directions[y]
    if target.kind == "labels":
        summed: Tensor = torch.tensordot(y, directions, dims=1)
        return summed
    scaled = y / max(1.0, float(y.abs().max()))  # counts are in their own unit
    centres: Tensor = scaled.view(-1, *[1] * (directions.dim() - 1)) * directions
    return centres
