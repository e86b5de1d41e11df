"""Synthetic records with the public facts of a data set: shape, kind of target and number of records."""

from __future__ import annotations

import torch

from tacit.errors import TacitError
from tacit.tasks import Dataset

_SPREAD = 1.0  # standard deviation of a record around the centre of its class, relative to the centres


def synthetic_records(data: Dataset, seed: int = 0, most: int | None = None) -> Dataset:
    """Return records with the same shape, classes and number as those of `data`.

    A record is the random centre of its class plus noise. Records are in [0, 1], as pixels and scaled columns are.

    Privacy:
        Only public facts of `data` are used: no value of a record has an influence.

    Args:
        data: The data set.
        seed: The seed of the records.
        most: The largest number of records; None: as many as in `data`.

    Raises:
        TacitError: The targets are no classes, or the records are tokens.
    """
    if data.tokens or data.target.kind != "class":
        raise TacitError(
            f"synthetic records need numbers and classes, got {'tokens' if data.tokens else data.target.kind}: tune on "
            "public data (--public), or on the records (--charge)"
        )
    generator = torch.Generator().manual_seed(seed)
    train, test = (min(count, most or count) for count in (len(data.y), max(200, len(data.test_y))))
    y = torch.randint(0, data.classes, (train + test,), generator=generator)
    centres = torch.randn(data.classes, *data.inputs, generator=generator)
    noise = torch.randn(train + test, *data.inputs, generator=generator)
    x = torch.sigmoid(centres[y] + _SPREAD * noise)
    return Dataset("synthetic", x[:train], y[:train], x[train:], y[train:], data.target)
