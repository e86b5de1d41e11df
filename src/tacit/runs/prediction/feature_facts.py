"""The features of a trained model, as its file describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from tacit.errors import TacitError
from tacit.runs.prediction.model_privacy import Described
from tacit.tasks import FeatureDescription, FeatureMap, FeatureName, PixelScale, restore_features

FEATURE_STATE = "features."  # starts the names of the whitening's tensors in a model file


class FeatureFacts(Described):
    """How features are computed from raw records; see `FeatureDescription`."""

    names: list[str]
    whiten: str
    rank: int | None
    values: int
    inputs: list[int]
    tokens: bool
    pixels: list[list[float]]
    assumptions: list[str]
    sources: list[str]
    digest: str | None = None

    @classmethod
    def of(cls, described: FeatureDescription) -> FeatureFacts:
        """Return the facts about features."""
        facts = {key: value for key, value in described.as_dict().items() if key in cls.model_fields}
        return cls.model_validate({**facts, "assumptions": list(described.assumptions)})

    def restore(self, state: Mapping[str, Tensor], given: Sequence[FeatureName] | None = None) -> FeatureMap:
        """Return the map, with the whitening in `state`; `given` are the user's own features.

        Raises:
            TacitError: They are not the features of the run.
        """
        facts = self.model_dump(exclude={"names", "inputs", "pixels", "assumptions", "sources", "digest"})
        mean, std = self.pixels
        lists: dict[str, Any] = {
            key: tuple(getattr(self, key)) for key in ("names", "inputs", "assumptions", "sources")
        }
        described = FeatureDescription(**facts, **lists, pixels=PixelScale(tuple(mean), tuple(std)))
        if self.digest not in (None, described.digest):
            raise TacitError(
                "the features of this run are those of another version of Tacit: predict with that version"
            )
        return restore_features(described, state, given)


def feature_state(features: FeatureMap | None) -> dict[str, Tensor]:
    """Return the tensors of a map for a model file."""
    whitening = None if features is None else features.whitening
    return {} if whitening is None else dict(whitening.state_dict())
