"""The data of a run, with the features that its config names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from tacit.privacy import Relation
from tacit.registry import invalid
from tacit.runs.config_sections import ConfigSection, FeatureKeys, NamedPart
from tacit.tasks import Dataset, FeatureName, datasets, fitting_split, refuse_own_data, with_features

K = TypeVar("K", bound=ConfigSection)


def build_data(
    part: NamedPart, relation: Relation, given: Dataset | None = None, own_features: Sequence[FeatureName] | None = None
) -> Dataset:
    """The data that a config names, or `given` data, with the features that the config names.

    A user's file is split as the relation of the run needs it, unless the config says. A split that does not fit is
    refused where the run begins, if the run could state a guarantee. `own_features` replace names of Python objects.
    """
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
