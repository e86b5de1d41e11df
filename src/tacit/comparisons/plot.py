"""The figure of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.comparisons.frame import frame_rows
from tacit.privacy import Privacy, rounded_up
from tacit.runs import PlottedCurve, XAxis, plot_curves

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_comparison(
    frame: pd.DataFrame, *, x: XAxis = "round", metric: str | None = None, ax: Axes | None = None
) -> Axes:
    """Plot a frame of `tacit.compare` with matplotlib: one curve per method, the mean over its seeds.

    Bands are one standard deviation. The trivial predictor is a dashed line. The defaults fit one column of a paper;
    `plot_comparison(frame).figure.savefig("comparison.pdf")` writes a vector graphic.

    Args:
        frame: The frame, of which methods may have been removed.
        x: The horizontal axis: "round", "epsilon" (guaranteed ε spent), "bytes" (data sent) or "cost" (cost clock).
        metric: The metric to plot; None: the main metric of the task.
        ax: Axes to draw into; None: those of a new figure.

    Returns:
        The axes; `axes.figure` is the figure.

    Raises:
        TacitError: matplotlib is not installed, or an argument is not accepted.
    """
    rows, facts = frame_rows(frame), frame.attrs
    curves = [
        PlottedCurve(
            f"{_legend_name(row['method'], row['algorithm'])} ({_epsilon(row['guaranteed'])})",
            facts["curves"][row["method"]],
            Privacy(row["guaranteed"], row["claimed"], facts["delta"], simulated=True),
        )
        for row in rows
    ]
    seeds = facts["seeds"]
    over = "one seed" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"
    caption = f"ε: guaranteed (simulated), δ = {facts['delta']:g}\nCurves: {over}"
    return plot_curves(curves, x=x, metric_name=metric, trivial=facts["trivial"], caption=caption, ax=ax)


def _epsilon(guaranteed: float | None) -> str:
    return "no guarantee" if guaranteed is None else f"ε = {rounded_up(guaranteed)}"


def _legend_name(label: str, title: str) -> str:
    """The title of the algorithm, unless the label is a user's own.

    >>> _legend_name("dyn-d2p", "Dyn-D²P"), _legend_name("large steps", "Dyn-D²P")
    ('Dyn-D²P', 'large steps')
    """
    return title if label.lower() in title.replace("²", "2").lower() else label
