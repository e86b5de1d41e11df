"""The evaluations of a run, in memory or in a folder: as rows, as a data frame and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.runs.observer import Row
from tacit.runs.prediction import TrainedRun

if TYPE_CHECKING:
    import pandas as pd


class EvaluatedRun(TrainedRun):
    """A run with evaluations. Both a run in memory and one in a folder have these attributes.

    Attributes:
        evaluations: One row per evaluation, as in history.csv. Shares such as accuracy are between 0 and 1.
    """

    evaluations: list[Row]

    @property
    def history(self) -> pd.DataFrame:
        """One row per evaluation, as a new pandas DataFrame.

        The columns are those of history.csv: `round` first, then the metrics. A value that is not known is NaN.
        """
        return history_frame(self.evaluations)


def history_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of a history as a data frame of numbers.

    >>> frame = history_frame([{"round": 0, "loss": None}, {"round": 5, "loss": None}])
    >>> frame.dtypes.astype(str).to_dict()
    {'round': 'int64', 'loss': 'float64'}
    """
    import pandas as pd  # slow to import

    frame = pd.DataFrame(list(rows), columns=None if rows else ["round"])
    empty = frame.select_dtypes("object").columns  # contain None only: columns with a number are numeric already
    return frame.astype(dict.fromkeys(empty, "float64") | {"round": "int64"})
