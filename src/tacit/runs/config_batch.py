"""The section [batch] of a config."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from tacit.privacy import Relation, SamplingKind, sampling_kinds
from tacit.runs.config_sections import ConfigSection
from tacit.tasks import Augmentation, Clipping, augmentations

ALL_RECORDS = "all"  # batch.size of steps that use every record


class Batch(ConfigSection):
    """How records are drawn for one step.

    `size` is the (expected) batch size. None, in a file "all", means that every step uses all records. A permutation
    is reshuffled every `epochs` epochs; cyclic batches have one shuffle for the whole run.

    >>> Batch.model_validate({"size": "all"}).size, Batch(size=None).model_dump()["size"], Batch().size
    (None, 'all', 32)
    """

    size: int | None = Field(default=32, ge=1, description='(expected) batch size per node, or "all"')
    sampling: str = Field(default="poisson", description="poisson, without-replacement, permutation or cyclic")
    relation: Relation | None = Field(default=None, description="neighbouring data sets: add-remove or replace-one")
    epochs: int = Field(default=1, ge=1, description="with permutation: epochs between two shuffles")
    clipping: Clipping = Field(
        default="method", description="how gradients are clipped: as the method does, or automatic (normalised)"
    )
    augmentations: int = Field(default=1, ge=1, description="random copies of each image, averaged before the clip")
    augment: tuple[str, ...] = Field(default=("flip", "shift"), description="how the copies differ: flip, shift")

    @field_validator("size", mode="before")
    @classmethod
    def _read_all(cls, value: Any) -> Any:
        if isinstance(value, str) and value != ALL_RECORDS:
            raise ValueError(f'Input should be a whole number, or "{ALL_RECORDS}" for all records')
        return None if value == ALL_RECORDS else value

    @model_serializer(mode="wrap")
    def _write_all(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """TOML has no None, and a file without `size` has the default.

        Options that have no effect are left out, so that a run of an earlier version has the same config.
        """
        table: dict[str, Any] = write(self)
        unused = {"clipping"} if self.clipping == "method" else set()
        unused |= {"augmentations", "augment"} if self.augmentations == 1 else set()
        table = {key: value for key, value in table.items() if key not in unused}
        return table if self.size is not None else {**table, "size": ALL_RECORDS}

    @field_validator("sampling")
    @classmethod
    def _sampling_is_registered(cls, value: str) -> str:
        kinds = [kind for kind in sampling_kinds if kind != "none"]
        if value not in kinds:
            raise ValueError(f"Input should be one of {', '.join(kinds)}")
        return value

    @field_validator("augment")
    @classmethod
    def _augment_is_registered(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not set(value) <= set(augmentations):
            raise ValueError(f"Input should be a list of {', '.join(augmentations)}")
        return value

    @property
    def augmentation(self) -> Augmentation | None:
        """The copies of every image; None without copies."""
        return None if self.augmentations == 1 else Augmentation(self.augmentations, self.augment)


def batch_relation(batch: Batch) -> Relation:
    """The relation for which these batches are accounted: the given one, or the default of their sampling."""
    kind = sampling_kinds.registered("none" if batch.size is None else batch.sampling)
    assert isinstance(kind, type)
    assert issubclass(kind, SamplingKind)
    return batch.relation or kind.relations[0]
