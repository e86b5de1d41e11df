"""The arguments `features`, `whiten` and `rank` of `tacit.train`: the same checks as of the keys of [data]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from tacit.api.arguments import kind, refuse_optimiser
from tacit.errors import TacitError
from tacit.runs import FeatureKeys
from tacit.tasks import Dataset, FeatureName, feature_name

_FORMS = 'a name, "path/to/file.py:function", a function of one record or a torch.nn.Module'


@dataclass(frozen=True, eq=False)
class GivenFeatures:
    """Features by which each record is replaced: names, functions or modules. They are checked when this is created."""

    features: Sequence[FeatureName] | None = None
    whiten: str = FeatureKeys.model_fields["whiten"].default
    rank: int | None = None

    def __post_init__(self) -> None:
        if self.features is None:
            return
        if isinstance(self.features, str) or not isinstance(self.features, Sequence):
            raise TacitError(f"features must be a list, got {kind(self.features)}: write features=[...]")
        for feature in self.features:
            _check(feature)

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of [data] that are not the defaults. Python objects have the names that reports show."""
        given = self.features
        names = None if given is None else [each if isinstance(each, str) else feature_name(each) for each in given]
        values = {"features": names, "whiten": self.whiten, "rank": self.rank}
        return {key: value for key, value in values.items() if value != FeatureKeys.model_fields[key].default}

    def objects(self, data: Dataset | None) -> Sequence[FeatureName] | None:
        """The features of a run, if some are Python objects; `data` are its records, unless they are named.

        Raises:
            TacitError: The records have features already.
        """
        if self.features is None:
            return None
        if data is not None and data.features is not None:
            raise TacitError(
                f"the Dataset {data.name} has features already ({data.features.description.title}): remove features=, "
                "or pass the Dataset without features"
            )
        return None if all(isinstance(each, str) for each in self.features) else self.features


def _check(feature: object) -> None:
    refuse_optimiser("a feature", feature)
    if isinstance(feature, type):
        raise TacitError(f"a feature is the class {feature.__name__}: pass an instance, {feature.__name__}(...)")
    if not (isinstance(feature, str | nn.Module) or callable(feature)):
        raise TacitError(f"a feature must be {_FORMS}, got {kind(feature)}")
