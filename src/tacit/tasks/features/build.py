"""From the keys of a config to a feature map."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.published import limited
from tacit.tasks.features.description import FeatureDescription
from tacit.tasks.features.feature_map import CHUNK, FeatureMap
from tacit.tasks.features.registry import UNSCALED, PixelScale, features, picture_shape
from tacit.tasks.features.shapes import PICTURES, random_shapes
from tacit.tasks.features.whitening import Whitening, check_rank

UserFeature = Callable[[Tensor], Any] | nn.Module
SHAPES, NONE = "shapes", "none"


def build_features(
    chosen: Sequence[str | UserFeature], data: Dataset, whiten: str = NONE, rank: int | None = None
) -> FeatureMap:
    """Build the features of a data set. Only its public facts are used: shape, type and scale of its records.

    Args:
        chosen: Names of features (`tacit list`), `path/to/file.py:function`, modules or functions.
        data: The data set.
        whiten: "none", "shapes", or the name of a public data set.
        rank: How many directions the whitening keeps, at most; None: all.

    Raises:
        TacitError: A name is unknown, or the features do not fit the records.
    """
    _check(chosen, data, whiten, rank)
    pixels = data.pixels or UNSCALED
    parts = [_part(name, data, pixels) for name in chosen]
    whitening = None
    if whiten != NONE:
        public = _public_records(whiten, data, pixels)
        whitening = Whitening.fit(_values(parts, public), rank)
    description = FeatureDescription(
        names=tuple(str(name) for name in chosen),
        whiten=whiten,
        rank=rank,
        values=_width(parts, data) if whitening is None else whitening.projection.shape[1],
        inputs=data.inputs,
        tokens=data.tokens,
    )
    return FeatureMap(parts, description, whitening)


def with_features(
    data: Dataset, chosen: Sequence[str | UserFeature], whiten: str = NONE, rank: int | None = None
) -> Dataset:
    """Return the data with features; the arguments are those of `build_features`."""
    made = build_features(chosen, data, whiten, rank)
    return data.with_features(made, made.apply_to(data.x), made.apply_to(data.test_x))


def _check(chosen: Sequence[str | UserFeature], data: Dataset, whiten: str, rank: int | None) -> None:
    if not chosen:
        raise TacitError("data.features is empty: name features, or remove data.features")
    if data.normalise != "none":
        raise TacitError(f'data.features have unit norm already: remove data.normalise = "{data.normalise}"')
    if data.private is not None:
        raise TacitError('data.features need declared ranges: replace range = "private" by range = [low, high]')
    check_rank(rank, whiten)


def _part(name: str | UserFeature, data: Dataset, pixels: PixelScale) -> nn.Module:
    assert isinstance(name, str)
    given = {"inputs": data.inputs, "pixels": pixels}
    known = features.parameters(name)
    return features.build(name, {key: value for key, value in given.items() if key in known})


def _width(parts: Sequence[nn.Module], data: Dataset) -> int:
    zeros = torch.zeros(1, *data.inputs, dtype=data.x.dtype)
    return sum(part(zeros).shape[1] for part in parts)


def _public_records(whiten: str, data: Dataset, pixels: PixelScale) -> Tensor:
    if whiten == SHAPES:
        shape = picture_shape(SHAPES, data.inputs, 1)
        return random_shapes(shape, pixels).reshape(-1, *data.inputs)
    public = datasets.build(whiten)
    if public.inputs != data.inputs:
        raise TacitError(
            f'data.whiten = "{whiten}" has records of shape {public.inputs}, but data set {data.name} has '
            f"{data.inputs}: they must be the same"
        )
    x = (public if len(public.y) <= PICTURES else limited(public, PICTURES)).x.double()
    if public.pixels is None:
        return x
    mean, std = public.pixels.tensors(x)
    shift, scale = pixels.tensors(x)
    return (x * std + mean - shift) / scale


def _values(parts: Sequence[nn.Module], public: Tensor) -> Tensor:
    """Return the values (M, k) of public records, in float64 where the features are quick enough."""
    columns = []
    for part in parts:
        exact = bool(getattr(part, "exact", False))
        own = copy.deepcopy(part).double() if exact else part
        x = public if exact else public.float()
        with torch.no_grad():
            columns.append(torch.cat([own(x[start : start + CHUNK]).double() for start in range(0, len(x), CHUNK)]))
    return torch.cat(columns, dim=1)
