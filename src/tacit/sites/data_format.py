"""[data] of network.toml: the format that the data of every site must have."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tacit.runs import ConfigSection, FeatureKeys
from tacit.tasks import Label, Missing, TableSchema


class PixelFormat(ConfigSection):
    """With what pixels in [0, 1] are standardised at every site: (pixel − mean) / std, with one value per channel."""

    mean: tuple[float, ...] = Field(min_length=1, description="mean of each channel")
    std: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, description="standard deviation of each")


class DataFormat(ConfigSection):
    """[data] of network.toml: the format that the data of every site must have.

    Training needs `inputs`, the shape of a record, and either `labels`, in the order of the class numbers, or
    `classes`, their number (then the labels are 0 to classes − 1). Tables need `columns` instead, from which shapes,
    labels and scaling follow. Graph learning needs `vertices` only.
    """

    inputs: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(
        default=None, min_length=1, description="shape of a record"
    )
    labels: tuple[Label, ...] | None = Field(
        default=None, min_length=2, description="labels, in the order of the class numbers"
    )
    classes: int | None = Field(default=None, ge=2, description="number of classes, if labels are 0 to classes − 1")
    columns: dict[str, Any] | None = Field(default=None, description="columns of a table: docs/tables.md")
    missing: Missing | None = Field(default=None, description="what a missing cell of a table becomes")
    vertices: int | None = Field(default=None, ge=2, description="number of vertices; for graph learning only")
    features: tuple[str, ...] | None = Field(default=None, min_length=1, description="features of every record")
    whiten: str = Field(default="none", description="whiten features with: none, shapes, or a public data set")
    rank: int | None = Field(default=None, ge=1, description="directions that whitening keeps, at most; default: all")
    pixels: PixelFormat | None = Field(default=None, description="with what pixels were standardised, for features")

    @property
    def feature_keys(self) -> dict[str, Any]:
        """The features that every site applies to its records."""
        return self.model_dump(include={*FeatureKeys.model_fields}, exclude_none=True) if self.features else {}

    @property
    def unused_feature_key(self) -> str | None:
        """A key that has an effect only with features, if there are none."""
        if self.features is not None:
            return None
        given = {"whiten": self.whiten != "none", "rank": self.rank, "pixels": self.pixels}
        return next((key for key, value in given.items() if value), None)

    def with_folder(self, folder: Path) -> DataFormat:
        """Return the format with relative files of features and public data resolved against `folder`."""
        names = None if self.features is None else tuple(in_folder(name, folder) for name in self.features)
        return self.model_copy(update={"features": names, "whiten": in_folder(self.whiten, folder)})

    @cached_property
    def table_schema(self) -> TableSchema | None:
        """The columns of every site's table; None if the data are no tables."""
        return None if self.columns is None else TableSchema.parse(self.columns, self.missing or "middle")

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of a record."""
        return self.inputs if self.table_schema is None else self.table_schema.inputs

    @property
    def label_order(self) -> tuple[Label, ...]:
        """The labels in the order of their class numbers."""
        if self.table_schema is not None:
            return self.table_schema.target.labels
        return self.labels or tuple(range(self.classes or 0))


def in_folder(name: str, folder: Path) -> str:
    """Return a name whose relative file is resolved against `folder`."""
    return str(folder / name) if ".py:" in name else name
