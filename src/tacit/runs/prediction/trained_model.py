"""A trained model: predictions for new records."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.runs.prediction.description import ModelDescription
from tacit.runs.prediction.prediction_module import PredictionModule
from tacit.runs.prediction.record_files import RecordFile, record_frame
from tacit.runs.run_summary import SummarisedRun
from tacit.tasks import FeatureMap, Forward, Head, RecordPreparation, TableSchema

if TYPE_CHECKING:
    import pandas as pd

Features: TypeAlias = npt.ArrayLike | Tensor
Records: TypeAlias = "Features | pd.DataFrame | str | Path"
"""Records to predict: features as an array or tensor, or the columns of a table as a frame or in a file."""
Array: TypeAlias = npt.NDArray[Any]
_RECORDS_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A module with trained parameters, and what is needed to predict with it.

    Attributes:
        module: The module, in evaluation mode.
        head: Turns outputs into predictions; None if the outputs have no known meaning.
        schema: The columns from which records are prepared; None if the training records were not a table.
        description: The metadata of the model.
        forward: The function that calls the module; None if the module is called with the features alone.
        features: The map from raw records to the inputs of the module; None: the inputs are the records.
        preparation: Centres and whitens the inputs before the module; None: they are used as they are.
    """

    module: nn.Module
    head: Head | None
    schema: TableSchema | None
    description: ModelDescription
    forward: Forward | None = None
    features: FeatureMap | None = None
    preparation: RecordPreparation | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of one raw record."""
        described = self.description
        return tuple((described.features or described.architecture).inputs)

    @property
    def predictor(self) -> PredictionModule:
        """The module that maps features to predictions.

        Raises:
            TacitError: The outputs have no known meaning.
        """
        prepared = self.description.normalise, self.forward, self.features, self.preparation
        return PredictionModule(self.module, self.known_head, *prepared)

    @property
    def known_head(self) -> Head:
        """The head; raise TacitError if there is none."""
        if self.head is None:
            described = self.description.head
            kind = "" if described is None else f": they belong to {described.kind}, which is not part of Tacit"
            raise TacitError(f"the outputs of this model have no known meaning{kind}. Use model() and its outputs")
        return self.head

    def prepare(self, records: Records) -> Tensor:
        """Return the features (B, …) of records, as `predict` and exported models use them.

        Warns:
            UserWarning: Many cells of a column are empty, not valid or outside the declared range.
        """
        if isinstance(records, str | Path):
            return self._read(RecordFile.open(self, Path(records)))
        if self.schema is not None and hasattr(records, "columns"):  # a data frame
            return self._read(record_frame(self, self.schema, records))
        return self.checked(cast(Features, records))

    def _read(self, file: RecordFile) -> Tensor:
        features = torch.cat([chunk.features for chunk in file.chunks()])
        for note in file.cell_notes:
            warnings.warn(note, UserWarning, stacklevel=5)  # the caller of `TrainedRun.predict`
        return features

    def checked(self, features: Features) -> Tensor:
        """Return features (B, …) with the shape of the model's inputs, as float32, or as int64 for tokens.

        Raises:
            TacitError: The shape does not fit, or a value is not a finite number or not an integer.
        """
        try:
            x = features if isinstance(features, Tensor) else torch.from_numpy(np.array(features, self._dtypes[0]))
        except (TypeError, ValueError):
            raise TacitError("features must be numbers, in an array with one row per record") from None
        x, inputs = x.detach().to("cpu", self._dtypes[1]), self.inputs
        if x.dim() == 2 and x.shape[1] == math.prod(inputs):
            x = x.reshape(-1, *inputs)
        if x.dim() == 0 or x.shape[1:] != inputs:
            shape = ", ".join(map(str, inputs))
            raise TacitError(f"features must have the shape (records, {shape}), got {tuple(x.shape)}")
        row = first_not_finite(x)
        if row is not None:
            raise TacitError(f"record {row} (counted from 0) has a feature that is not a finite number")
        if self.takes_tokens:
            whole = x.to(torch.int64)
            for position in (whole != x).nonzero()[:1].tolist():
                raise TacitError(f"record {position[0]} (counted from 0) has a token that is not an integer")
            return whole
        return x

    @property
    def takes_tokens(self) -> bool:
        """Whether the records are integers."""
        described = self.description
        return (described.features or described.architecture).tokens

    @property
    def _dtypes(self) -> tuple[type[np.floating[Any]], torch.dtype]:
        """The types in which features are read: tokens need all digits."""
        return (np.float64, torch.float64) if self.takes_tokens else (np.float32, torch.float32)

    def predictions(self, x: Tensor, first: int = 0) -> Tensor:
        """Return what the head predicts for checked features: probabilities (B, C), or values (B,).

        `first` is the position of the first record, for errors.
        """
        predictor = self.predictor
        with torch.no_grad(), self._errors_in_one_sentence():
            parts = [predictor(x[start : start + _RECORDS_AT_ONCE]) for start in range(0, len(x), _RECORDS_AT_ONCE)]
            found = torch.cat(parts) if parts else predictor(torch.zeros(1, *self.inputs, dtype=x.dtype))[:0]
        row = first_not_finite(found)
        if row is not None:
            raise TacitError(f"the model has no finite prediction for record {first + row} (counted from 0)")
        return found

    @contextmanager
    def _errors_in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except IndexError as error:
            what = "a record has a token outside the model's embedding" if self.takes_tokens else "the model fails"
            raise TacitError(f"{what}: {error}") from error

    def predict(self, records: Records) -> Array:
        """Return predicted labels (B,), numbers (B,) in the unit of the records, or several labels (B, C) as 0 or 1.

        Args:
            records: Features, as an array or tensor; or a table with the columns of the training table, as a frame or
                in a file. The target's column may be absent.
        """
        return self.decided(self.predictions(self.prepare(records)))

    def predict_proba(self, records: Records) -> Array:
        """Return the probability of each class or label (B, C), in the order of `description.target.labels`."""
        self.check_predictions(probabilities=True)
        return self.predictions(self.prepare(records)).numpy()

    def check_predictions(self, *, probabilities: bool) -> None:
        """Raise if the model has no predictions, or if they are not `probabilities` as they should be."""
        if not self.known_head.classifies and probabilities:
            kind = self.description.target.kind
            raise TacitError(f"this model predicts a {kind}, which has no probabilities")

    def decided(self, predictions: Tensor) -> Array:
        """Return labels, values or several labels from what `predictions` returns."""
        head = self.known_head
        decided: Array = head.decide(predictions).numpy()
        if head.target.kind != "class":
            return decided
        kinds = {type(label) for label in head.target.labels}
        labels: Array = np.array(head.target.labels, dtype=None if len(kinds) == 1 else object)
        return labels[decided]


class TrainedRun(SummarisedRun, ABC):
    """A run with a trained model. Both a run in memory and one in a folder have these methods.

    `node` chooses the model of one node. By default it is the mean of all nodes' models, or the own model of a site.
    """

    @abstractmethod
    def trained(self, node: int | None = None) -> TrainedModel:
        """Return the model with everything that is needed to predict.

        Raises:
            TacitError: The run has no such model, or its module cannot be created.
        """

    def model(self, node: int | None = None) -> nn.Module:
        """Return the trained model as a plain PyTorch module in evaluation mode."""
        return self.trained(node).module

    def prepare(self, records: Records, node: int | None = None) -> Tensor:
        """Return the features (B, …) of records, as exported models use them."""
        return self.trained(node).prepare(records)

    def predict(self, records: Records, node: int | None = None) -> Array:
        """Return the predictions for records; see `TrainedModel.predict`."""
        return self.trained(node).predict(records)

    def predict_proba(self, records: Records, node: int | None = None) -> Array:
        """Return the probability of each class or label (B, C); see `TrainedModel.predict_proba`."""
        return self.trained(node).predict_proba(records)


def first_not_finite(values: Tensor) -> int | None:
    """Return the first row (of dimension 0) that contains a value that is not finite, or None."""
    rows = [] if not len(values) else (~values.reshape(len(values), -1).isfinite().all(1)).nonzero().tolist()
    return int(rows[0][0]) if rows else None
