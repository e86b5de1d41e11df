"""Labelled records for training and testing, checked when they are created."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.registry import Registry
from tacit.tasks.data import checks
from tacit.tasks.data.cells import DecimalMark
from tacit.tasks.data.checks import Values
from tacit.tasks.data.columns import Missing
from tacit.tasks.data.normalising import Normalise, normalised_records
from tacit.tasks.data.private_columns import PrivateColumns
from tacit.tasks.data.public_facts import check_public_facts
from tacit.tasks.data.split import Split, is_held_out
from tacit.tasks.data.table_parts import table_parts
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.data.table_source import FrameTable, TableSource
from tacit.tasks.features import AppliedFeatures, FeatureMap, PixelScale
from tacit.tasks.target import Label, Target

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled records: `x` (M, *inputs) float32 (tokens: int64), their targets `y` (see `Target`), and test records.

    Attributes:
        name: The name in reports and error messages.
        target: What a record is labelled with.
        declared: Whether the classes are public: given, and not learnt from the records.
        split: How test records were held out of the records; None: they were given.
        schema: The declared columns of the table from which the records were prepared; None: they were no table.
        normalise: How every record was divided by its own norm; see `normalised`.
        private: The columns of the table whose range is a private release; None without such columns.
        decimal: The decimal mark of numbers in the text of this table.
        pixels: The public constants with which pixels in [0, 1] were standardised; None: they were not.
        features: The features that were applied, with the raw records; None: `x` are the records themselves.

    >>> Dataset.from_arrays([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], labels=["no", "yes"])
    Dataset data: 3 records of (1,) in 2 classes, 1 for testing
    >>> Dataset.from_arrays([[0.0], [float("nan")]], [0, 1], name="my")
    Traceback (most recent call last):
    tacit.errors.TacitError: data set my: x has a NaN or infinite value, first at row 1, column 0 (counted from 0)
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    target: Target
    declared: bool = True
    split: Split | None = None
    schema: TableSchema | None = None
    normalise: Normalise = "none"
    private: PrivateColumns | None = None
    decimal: DecimalMark = "."
    pixels: PixelScale | None = None
    features: AppliedFeatures | None = None

    def __post_init__(self) -> None:
        for field in ("x", "y", "test_x", "test_y"):
            object.__setattr__(self, field, checks.own_memory(getattr(self, field)))
        target = self.target
        for part, x, y in (("", self.x, self.y), ("test_", self.test_x, self.test_y)):
            if x.dtype not in (torch.float32, torch.int64) or y.dtype != target.dtype:
                wanted = str(target.dtype).removeprefix("torch.")
                raise self._error(f"{part}x must be float32 or int64 and {part}y {wanted}, got {x.dtype} and {y.dtype}")
            checks.check_records(self.name, part, x.numpy(), y.numpy(), target)
            if (row := target.first_invalid(y)) is not None:
                valid = f"in 0 … {self.classes - 1}" if self.classes else f"a valid {target.kind}"
                raise self._error(f"the label at row {row} of {part}y is not {valid}")
        if not len(self.y):
            raise self._error("there are no training records; give more records, or a smaller share for testing")
        train, test = (f"{tuple(x.shape[1:])}{', integers' * (x.dtype == torch.int64)}" for x in (self.x, self.test_x))
        if train != test:
            raise self._error(f"training records have shape {train}, test records {test}; they must be the same")

    def __repr__(self) -> str:
        kinds = {"class": f"in {self.classes} classes", "labels": f"with {len(self.target.labels)} labels"}
        sizes = f"{len(self.x)} records of {self.inputs} {kinds.get(self.target.kind, f'with a {self.target.kind}')}"
        return f"Dataset {self.name}: {sizes}, {len(self.test_x)} for testing"

    @property
    def classes(self) -> int:
        """The number of classes; 0 if the target is not a class."""
        return self.target.classes

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of one record."""
        return tuple(self.x.shape[1:])

    @property
    def tokens(self) -> bool:
        """Whether the records are integers, such as the numbers of words."""
        return self.x.dtype == torch.int64

    @property
    def raw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The training and test records before features were applied. Digests are computed from them."""
        return (self.x, self.test_x) if self.features is None else (self.features.raw, self.features.raw_test)

    def with_features(self, features: FeatureMap, x: torch.Tensor, test_x: torch.Tensor) -> "Dataset":
        """Return the data with the features `x` and `test_x` that the map has computed from these records."""
        if self.features is not None:
            raise self._error("features were applied already")
        return replace(self, x=x, test_x=test_x, features=AppliedFeatures(features, self.x, self.test_x))

    def subset(self, records: npt.NDArray[np.int64]) -> "Dataset":
        """Return a data set with copies of these training records; the test set stays the same."""
        index = torch.from_numpy(records)
        private = None if self.private is None else self.private.subset(records)
        features = None if self.features is None else self.features.subset(records)
        return replace(self, x=self.x[index], y=self.y[index], private=private, features=features)

    @classmethod
    def from_arrays(
        cls,
        x: Values,
        y: Values,
        test: float | tuple[Values, Values] = 0.2,
        seed: int = 0,
        name: str = "data",
        labels: Sequence[Label] | None = None,
        split: Split = "content",
        target: Target | None = None,
        tokens: bool = False,
    ) -> "Dataset":
        """Create a data set from arrays.

        Privacy:
            A run with a guarantee needs `labels`, and test records that were given or held out by the `split` that
            fits its neighbouring relation: "content" if a record is added or removed, "index" if one is replaced.
            Then no record influences the class number or the side of another.

        Args:
            x: The records, records × features.
            y: The labels, one per record: numbers or text. With a `target`: numbers or counts in their own unit, or a
                matrix of 0 and 1 (records × labels).
            test: The share of the records to hold out for testing (approximately), or test records and labels (x, y).
            seed: The key of the split.
            name: The name in reports and error messages.
            labels: The label values in the order of the classes 0 … C−1. None learns them from the records, in sorted
                order; then nothing can be guaranteed.
            split: What decides whether a record is held out: a digest of its "content" or of its "index".
            target: What `y` is, if it is not a class: `Target("number", range=(0, 60))`. It replaces `labels`.
            tokens: Whether `x` has integers that stay integers (int64). Else numbers become float32, exact up to 2²⁴; a
                module that accepts integers only, such as one with an embedding, gets integers in both cases.

        Raises:
            TacitError: If shapes, lengths, values or labels are not valid.
        """
        read = checks.as_tokens if tokens else checks.as_records
        train, train_y = read(x, name, "x"), checks.as_array(y, name, "y")
        checks.check_records(name, "", train, train_y, target)
        if not len(train) or (target is not None and labels is not None):
            wrong = "give labels or a target, not both" if len(train) else "there are no records"
            raise TacitError(f"data set {name}: {wrong}")
        declared = target is not None or labels is not None
        if target is None:
            target = checks.class_target(np.unique(train_y).tolist() if labels is None else labels, name)
        codes = checks.encode_targets(train_y, target, name, "y", declared)
        if isinstance(test, tuple):
            held, held_y = read(test[0], name, "test_x"), checks.as_array(test[1], name, "test_y")
            checks.check_records(name, "test_", held, held_y, target)
            parts = train, codes, held, checks.encode_targets(held_y, target, name, "test_y", declared)
        else:
            mask = is_held_out(train, train_y, test, split, seed, name)
            parts = train[~mask], codes[~mask], train[mask], codes[mask]
        x, y, test_x, test_y = map(torch.from_numpy, parts)
        by = None if isinstance(test, tuple) else split
        return cls(name, x, y, test_x, test_y, target=target, declared=declared, split=by)

    @classmethod
    def from_frame(
        cls,
        frame: "pd.DataFrame",
        columns: Mapping[str, Any],
        missing: Missing = "middle",
        test: "float | pd.DataFrame" = 0.2,
        seed: int = 0,
        name: str = "data",
        split: Split = "content",
    ) -> "Dataset":
        """Create a data set from a pandas data frame with declared columns.

        Args:
            frame: The records: text, numbers, dates, booleans or categories.
            columns: The columns by name, as in the section `[data.columns]` of a config.
            missing: How missing cells are prepared: "middle", "indicator" or "refuse".
            test: The share of the records to hold out for testing (approximately), or a frame of test records.
            seed: The key of the split.
            name: The name in reports and error messages.
            split: What decides whether a record is held out: a digest of its "content" or of its "index".

        Raises:
            TacitError: If the columns of the frame are not the declared ones, or a cell is refused.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [31, 72, 45, 60], "ill": ["no", "yes", "no", "no"]})
        >>> Dataset.from_frame(frame, {"age": {"range": [0, 110]}, "ill": {"label": ["no", "yes"]}}, test=0.0)
        Dataset data: 4 records of (1,) in 2 classes, 0 for testing
        """
        held = test if isinstance(test, float | int) else FrameTable(test, f"the test records of {name}")
        return cls.from_table(
            FrameTable(frame, f"data set {name}"), TableSchema.parse(columns, missing), held, seed, name, split
        )

    @classmethod
    def from_table(
        cls, table: TableSource, schema: TableSchema, test: float | TableSource, seed: int, name: str, split: Split
    ) -> "Dataset":
        """Create a data set from a table. The arguments are those of `from_frame`."""
        parts = table_parts(table, schema, test, seed, name, split)
        return cls(name, target=schema.target, schema=schema, decimal=table.decimal, **parts._asdict())

    def check_public_facts(self, relation: Relation, *, releases_ranges: bool = False) -> None:
        """Raise if the classes, or the side of a record (training or test), depend on other records.

        Neighbouring data sets would then differ in more than one record. Private ranges need a run that releases them.
        """
        check_public_facts(self, relation, releases_ranges)

    def normalised(self, how: Normalise) -> "Dataset":
        """Return the data with every record divided by its own L2 norm (`unit`), or unchanged (`none`).

        No statistic over several records is used, so normalising reveals nothing about other records.
        """
        if how == "none":
            return self
        if self.tokens:
            raise self._error(f'normalise = "{how}" is for numbers, but the records are tokens')
        x, test_x = (normalised_records(each, how) for each in (self.x, self.test_x))
        return replace(self, x=x, test_x=test_x, normalise=how)

    def _error(self, message: str) -> TacitError:
        return TacitError(f"data set {self.name}: {message}")


datasets: Registry[Dataset] = Registry("data set")
