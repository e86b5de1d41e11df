"""The data of a run, with the features that its config names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from pydantic import ValidationError

from tacit.privacy import Relation
from tacit.registry import invalid
from tacit.runs.config_sections import ConfigSection, FeatureKeys, NamedPart
from tacit.tasks import Dataset, FeatureName, datasets, fitting_split, refuse_own_data, with_features

K = TypeVar("K", bound=ConfigSection)


_LOADED: ContextVar[dict[tuple[str, Relation], Dataset] | None] = ContextVar("_LOADED", default=None)


@contextmanager
def loading_once() -> Iterator[None]:
    """Runs that are built in the block share the data that their configs name, as long as the block lasts."""
    token = _LOADED.set({})
    try:
        yield
    finally:
        _LOADED.reset(token)


def build_data(
    part: NamedPart, relation: Relation, given: Dataset | None = None, own_features: Sequence[FeatureName] | None = None
) -> Dataset:
    """The data that a config names, or `given` data, with the features that the config names.

    A user's file is split as the relation of the run needs it, unless the config says. A split that does not fit is
    refused where the run begins, if the run could state a guarantee. `own_features` replace names of Python objects.
    """
    loaded = None if given is not None or own_features else _LOADED.get()
    if loaded is None:
        return _build(part, relation, given, own_features)
    key = part.model_dump_json(), relation
    if key not in loaded:
        loaded[key] = _build(part, relation, None, None)
    return loaded[key]


def _build(
    part: NamedPart, relation: Relation, given: Dataset | None, own_features: Sequence[FeatureName] | None
) -> Dataset:
    can_split = part.name in datasets and "split" in datasets.options(part.name)
    chosen, params = {"split": fitting_split(relation)} if can_split else {}, part.parameters
    keys = pop_keys(FeatureKeys, params, f"data {part.name}")
    data = datasets.build(part.name, {**chosen, **params}) if given is None else given
    names = own_features or keys.features
    if names is None or data.features is not None:  # given data may have them already
        return data
    if given is None:
        refuse_own_data(keys.whiten, part.name)
    published = given is None and datasets.is_builtin(part.name) and "path" not in datasets.options(part.name)
    return with_features(data, names, keys.whiten, keys.rank, published=published)


def pop_keys(keys: type[K], params: dict[str, Any], where: str) -> K:
    """Remove from `params` the keys that belong to the section and not to the part it names, and check them."""
    try:
        return keys.model_validate({key: params.pop(key) for key in keys.model_fields if key in params})
    except ValidationError as error:
        raise invalid(where, error) from None
