"""Predictions as a table: one row per record, in the order of the records."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from tacit.errors import TacitError
from tacit.runs import storage
from tacit.runs.prediction.record_files import RecordFile
from tacit.runs.prediction.trained_model import TrainedModel

if TYPE_CHECKING:
    import pandas as pd


class PredictionWriter:
    """Writes the predictions of a model for the records of a file.

    | target | columns |
    |---|---|
    | class | `predicted_NAME` (`prediction` if the target has no name); with `proba` also `probability_LABEL` |
    | labels | `predicted_LABEL`, 0 or 1; with `proba` also `probability_LABEL` |
    | number, count | `predicted_NAME`, in the unit of the records |

    Args:
        model: The model.
        proba: Whether to add probabilities.

    Raises:
        TacitError: The model has no predictions, or no probabilities.
    """

    def __init__(self, model: TrainedModel, *, proba: bool = False) -> None:
        self.model, self.proba = model, proba
        model.check_predictions(probabilities=proba)

    def write(self, file: RecordFile, out: Path | None) -> int:
        """Write a csv file, completely or not at all, or to standard output; return the number of records."""
        count = 0

        def parts() -> Iterator[bytes]:
            nonlocal count
            for index, table in enumerate(self._tables(file)):
                yield table.to_csv(index=False, header=index == 0, lineterminator="\n").encode()
                count += len(table)

        if out is None:
            for part in parts():
                sys.stdout.write(part.decode())
        else:
            storage.write_parts(out, parts())
        return count

    def rows(self, file: RecordFile) -> list[dict[str, Any]]:
        """Return one dict per record, for JSON."""
        rows: list[dict[str, Any]] = []
        for table in self._tables(file):
            rows += json.loads(table.to_json(orient="records", double_precision=15))
        return rows

    def _tables(self, file: RecordFile) -> Iterator[pd.DataFrame]:
        start = 0
        for chunk in file.chunks():
            predictions = self.model.predictions(chunk.features, first=start)
            table = chunk.kept.reset_index(drop=True)
            for name, values in self._columns(predictions).items():
                if name in table.columns:
                    raise TacitError(f"--keep {name} has the name of a column of predictions: rename it in the file")
                table[name] = values
            yield table
            start += len(chunk.features)

    def _columns(self, predictions: Tensor) -> dict[str, np.ndarray[Any, Any]]:
        decided, target = self.model.decided(predictions), self.model.description.target
        if target.kind == "labels":
            columns = {f"predicted_{label}": decided[:, i] for i, label in enumerate(target.labels)}
        else:
            columns = {f"predicted_{target.name}" if target.name else "prediction": decided}
        if self.proba:
            found = predictions.numpy()
            columns |= {f"probability_{label}": found[:, i] for i, label in enumerate(target.labels)}
        return columns
