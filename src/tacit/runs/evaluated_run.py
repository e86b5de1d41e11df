"""The evaluations of a run, in memory or in a folder: as rows, as a data frame and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.runs.figures import PlottedCurve, XAxis, plot_curves, privacy_caption
from tacit.runs.observer import Row
from tacit.runs.prediction import TrainedRun

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from tacit.privacy import Privacy
    from tacit.runs.metrics import Utility


class EvaluatedRun(TrainedRun):
    """A run with evaluations. Both a run in memory and one in a folder have these attributes.

    Attributes:
        evaluations: One row per evaluation, as in history.csv. Shares such as accuracy are between 0 and 1.
    """

    evaluations: list[Row]
    if TYPE_CHECKING:  # properties of a run in memory, and of one in a folder

        @property
        def privacy(self) -> Privacy: ...
        @property
        def utility(self) -> Utility: ...

    @property
    def history(self) -> pd.DataFrame:
        """One row per evaluation, as a new pandas DataFrame.

        The columns are those of history.csv: `round` first, then the metrics. A value that is not known is NaN.
        """
        return history_frame(self.evaluations)

    def plot(
        self, *, x: XAxis = "round", metric: str | None = None, label: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Plot a metric of the run with matplotlib, with ε above and the trivial predictor as a dashed line.

        The defaults fit one column of a paper; `run.plot().figure.savefig("run.pdf")` writes a vector graphic.

        Args:
            x: The horizontal axis: "round", "epsilon" (guaranteed ε spent), "bytes" (data sent) or "cost" (cost clock).
            metric: The column of `history` to plot; None: the main metric of the task.
            label: The name of the run in the legend.
            ax: Axes to draw into, such as those of another run's plot; None: those of a new figure.

        Returns:
            The axes; `axes.figure` is the figure.

        Raises:
            TacitError: matplotlib is not installed, or an argument is not accepted.
        """
        curve = PlottedCurve(label or "model", self.evaluations, self.privacy)
        words = privacy_caption(self.privacy)
        caption = f"{words[0].upper()}{words[1:]}" if label is None else f"{label}: {words}"
        return plot_curves([curve], x=x, metric_name=metric, trivial=self.utility.trivial, caption=caption, ax=ax)


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
