"""From the keys of a config to a feature map, and to a data set with features."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.data.dataset import Dataset
from tacit.tasks.features.cache import cached, tensor_digest
from tacit.tasks.features.description import VERSION, FeatureDescription
from tacit.tasks.features.feature_map import CHUNK, FeatureMap
from tacit.tasks.features.own import OwnFeature, UserFeature, load_own
from tacit.tasks.features.progress import feature_progress
from tacit.tasks.features.public import NO_WHITENING, SHAPES, public_records
from tacit.tasks.features.registry import UNSCALED, PixelScale, features
from tacit.tasks.features.whitening import Whitening, check_rank

FeatureName = str | UserFeature


class RecordFacts(NamedTuple):
    """The public facts about records that decide how features are built."""

    inputs: tuple[int, ...]
    tokens: bool = False
    pixels: PixelScale = UNSCALED

    @classmethod
    def of(cls, data: Dataset) -> RecordFacts:
        """Return the facts about a data set."""
        return cls(data.inputs, data.tokens, data.pixels or UNSCALED)


def build_features(
    chosen: Sequence[FeatureName], data: Dataset, whiten: str = NO_WHITENING, rank: int | None = None
) -> FeatureMap:
    """Build the features of a data set. Only its public facts are used: shape, type and scale of its records.

    Args:
        chosen: Names of features (`tacit list`), `path/to/file.py:function`, modules or functions of one record.
        data: The data set.
        whiten: "none", "shapes", or the name of a public data set.
        rank: How many directions the whitening keeps, at most; None: all.

    Raises:
        TacitError: A name is unknown, or the features do not fit the records.
    """
    _check(chosen, data, whiten, rank)
    facts = RecordFacts.of(data)
    parts = build_parts(chosen, facts)
    whitening, sources = None, [source for _, source in sourced_parts(parts)]
    if whiten != NO_WHITENING:
        public = public_records(whiten, data, facts.pixels)
        sources += [] if whiten == SHAPES else [f"{base_name(whiten)} {tensor_digest(public)}"]
        whitening = _fitted(parts, public, rank, chosen, sources)
    names = tuple(feature_name(each) for each in chosen)
    values = width(parts, facts) if whitening is None else whitening.projection.shape[1]
    own = [str(text) for part in parts if (text := _assumption(part)) is not None]
    if facts.pixels != UNSCALED and not all(hasattr(part, "pixels") for part in parts):  # these undo the scale
        own.append("the mean and standard deviation with which pixels were standardised are public")
    public_name = base_name(whiten)
    own += [] if whiten in (NO_WHITENING, SHAPES) else [f"the data set {public_name} is public and shares no record"]
    described = FeatureDescription(names, public_name, rank, values, *facts, tuple(own), tuple(sources))
    return FeatureMap(parts, described, whitening)


def with_features(
    data: Dataset,
    chosen: Sequence[FeatureName],
    whiten: str = NO_WHITENING,
    rank: int | None = None,
    *,
    published: bool = False,
) -> Dataset:
    """Return the data with features; the arguments are those of `build_features`.

    Features of a `published` data set are stored in the cache folder, unless a feature is a Python object.
    """
    made = build_features(chosen, data, whiten, rank)

    def compute() -> dict[str, Tensor]:
        with feature_progress(len(data.x) + len(data.test_x)) as advance:
            return {"x": made.apply_to(data.x, advance), "test_x": made.apply_to(data.test_x, advance)}

    if published and all(isinstance(each, str) for each in chosen):
        fitted = [] if made.whitening is None else [made.whitening.mean, made.whitening.projection]
        key = tensor_digest("records", made.description.digest, *fitted, data.x, data.test_x)
        parts = cached(key, compute)
    else:
        parts = compute()
    return data.with_features(made, parts["x"], parts["test_x"])


def build_parts(chosen: Sequence[FeatureName], facts: RecordFacts) -> list[nn.Module]:
    """Build the features themselves, without whitening."""
    return [_part(each, facts) for each in chosen]


def sourced_parts(parts: Sequence[nn.Module]) -> list[tuple[nn.Module, str]]:
    """Return the features that names do not determine, with digests: own ones, and those with published weights."""
    own = [(part, part.source) for part in parts if isinstance(part, OwnFeature)]
    return own + [(part, str(text)) for part in parts if (text := getattr(part, "weights", None)) is not None]


def feature_name(feature: FeatureName) -> str:
    """Return the name of a feature in configs and reports."""
    if isinstance(feature, str):
        return base_name(feature)
    return f"python: {getattr(feature, '__name__', type(feature).__name__)}"


def base_name(name: str) -> str:
    """Return a name without the folder of its file, which differs between machines."""
    return Path(name).name if ".py:" in name else name


def _check(chosen: Sequence[FeatureName], data: Dataset, whiten: str, rank: int | None) -> None:
    if not chosen:
        raise TacitError("data.features is empty: name features, or remove data.features")
    if data.normalise != "none":
        raise TacitError(f'data.features have unit norm already: remove data.normalise = "{data.normalise}"')
    if data.private is not None:
        raise TacitError('data.features need declared ranges: replace range = "private" by range = [low, high]')
    check_rank(rank, whiten)


def _part(feature: FeatureName, facts: RecordFacts) -> nn.Module:
    if not isinstance(feature, str) or ".py:" in feature:
        own = load_own(feature) if isinstance(feature, str) else feature
        file = Path(feature.rpartition(":")[0]) if isinstance(feature, str) else None
        return OwnFeature(feature_name(feature), own, facts.inputs, facts.tokens, file)
    given = {"inputs": facts.inputs, "pixels": facts.pixels}
    known = features.parameters(feature)
    made = features.build(feature, {key: value for key, value in given.items() if key in known})
    return made if features.is_builtin(feature) else OwnFeature(feature, made, facts.inputs, facts.tokens)


def _assumption(part: nn.Module) -> str | None:
    if isinstance(part, OwnFeature):
        return f"{part.name} was made without them (Tacit cannot check this)"
    return getattr(part, "assumption", None)


def width(parts: Sequence[nn.Module], facts: RecordFacts) -> int:
    """Return the number of values of all features together."""
    zeros = torch.zeros(1, *facts.inputs, dtype=torch.int64 if facts.tokens else torch.float32)
    with torch.no_grad():
        return sum(part(zeros).shape[1] for part in parts)


def _fitted(
    parts: Sequence[nn.Module], public: Tensor, rank: int | None, chosen: Sequence[FeatureName], sources: list[str]
) -> Whitening:
    """Return the whitening, from the cache if it was fitted before. Only public records are used."""

    def fit() -> dict[str, Tensor]:
        fitted = Whitening.fit(_values(parts, public), rank)
        return {"mean": fitted.mean, "projection": fitted.projection}

    if not all(isinstance(each, str) for each in chosen):
        return Whitening(**fit())
    names = ",".join(map(str, chosen))
    return Whitening(**cached(tensor_digest("whitening", str(VERSION), names, str(rank), *sources, public), fit))


def _values(parts: Sequence[nn.Module], public: Tensor) -> Tensor:
    """Return the values (M, k) of public records, in float64 where the features are quick enough."""
    columns = []
    for part in parts:
        exact = bool(getattr(part, "exact", False))
        own, x = (copy.deepcopy(part).double(), public.double()) if exact else (part, public)
        if not exact and public.is_floating_point():
            x = public.float()
        with torch.no_grad():
            columns.append(torch.cat([own(x[start : start + CHUNK]).double() for start in range(0, len(x), CHUNK)]))
    values = torch.cat(columns, dim=1)
    return values[values.isfinite().all(dim=1)]
