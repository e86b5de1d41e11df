"""Figures of histories for papers, with matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tacit.errors import TacitError, unknown
from tacit.privacy import Privacy, rounded_up
from tacit.runs.metrics import Metric, headline_metrics, metric, metrics
from tacit.runs.observer import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

XAxis = Literal["round", "epsilon", "bytes", "cost"]
X_COLUMNS: dict[str, str] = {"round": "round", "epsilon": "guaranteed", "bytes": "bytes", "cost": "cost_seconds"}
DEVIATION = "_std"  # ends the name of the column that contains the deviation of another one

_SIZE = 3.4, 2.5  # inches: one column of a paper
_STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 9,
    "axes.titlesize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
_LINES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MARKED = 10  # markers per curve
_CAPTION_WIDTH = 56  # letters
_TRIVIAL = "trivial predictor"


class PlottedCurve(NamedTuple):
    """A history with its text in the legend. A column such as `accuracy_std` is drawn as a band around `accuracy`."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    privacy: Privacy


def plot_curves(
    curves: Sequence[PlottedCurve],
    *,
    x: XAxis = "round",
    metric_name: str | None = None,
    trivial: Mapping[str, float | None] | None = None,
    caption: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw one metric of several histories, and the trivial predictor as a dashed line.

    Args:
        curves: The histories.
        x: The horizontal axis: rounds, guaranteed ε spent, data sent, or the cost clock.
        metric_name: The column to draw; None: the main metric of the task.
        trivial: The metrics of the trivial predictor.
        caption: One or more lines above the axes. They are added to those of earlier curves.
        ax: Axes to draw into, which may already have curves; None: those of a new figure.

    Raises:
        TacitError: matplotlib is not installed, or `x` or `metric_name` is not known.
    """
    if x not in X_COLUMNS:
        raise unknown("x axis", x, X_COLUMNS)
    shown = _shown_metric(curves, metric_name)
    if x == "epsilon":  # a curve without a guarantee has no ε
        curves = [curve for curve in curves if curve.privacy.guaranteed is not None]
        if not curves:
            raise TacitError('x = "epsilon" needs a guarantee, and there is none: choose another x')
    with _style() as pyplot:
        if ax is None:
            ax = pyplot.subplots(figsize=_SIZE, layout="constrained")[1]
        earlier = sum(line.get_gid() == "curve" for line in ax.lines)
        for index, curve in enumerate(curves, earlier):
            _draw(ax, curve, index, X_COLUMNS[x], shown)
        level = (trivial or {}).get(shown.name)
        if level is not None and _TRIVIAL not in [line.get_label() for line in ax.lines]:
            ax.axhline(level * shown.scale, color="0.4", linewidth=1, linestyle=(0, (4, 2)), label=_TRIVIAL)
        ax.set_xlabel(_x_label(x, curves))
        ax.set_ylabel(shown.label)
        captions = [ax.get_title("left"), *(textwrap.fill(line, _CAPTION_WIDTH) for line in caption.splitlines())]
        ax.set_title("\n".join(filter(None, captions)), loc="left")
        ax.legend(handlelength=2.6, edgecolor="none", framealpha=0.75)
    return ax


def privacy_caption(privacy: Privacy) -> str:
    """The privacy of a run in a few words.

    >>> privacy_caption(Privacy(guaranteed=1.99, claimed=None, delta=1e-4, simulated=True))
    'guaranteed (simulated) ε = 1.99, δ = 0.0001 per record'
    """
    if privacy.guaranteed is None:
        return "no privacy is guaranteed"
    return f"{privacy.label.lower()} ε = {rounded_up(privacy.guaranteed)}, δ = {privacy.delta:g} per {privacy.unit}"


@contextmanager
def _style() -> Iterator[Any]:
    try:
        from matplotlib import interactive, is_interactive, pyplot  # an extra, and slow to import
    except ImportError:
        raise TacitError('matplotlib is not installed: pip install "tacit[plots]"') from None
    with pyplot.rc_context(_STYLE):
        yield pyplot
        was_switched_on = is_interactive()  # by the first figure of a notebook; the context would undo it
    interactive(was_switched_on)


def _shown_metric(curves: Sequence[PlottedCurve], name: str | None) -> Metric:
    columns: Row = {key: value for curve in curves for row in curve.rows[-1:] for key, value in row.items()}
    measured = [key for key in columns if key in metrics]
    if name is not None and name not in measured:
        raise unknown("metric of this history", name, measured)
    found = [metric(name)] if name is not None else headline_metrics(columns)
    if not found:
        raise TacitError("the history has no main metric: choose a column with metric=")
    return found[0]


def _draw(ax: Axes, curve: PlottedCurve, index: int, x: str, shown: Metric) -> None:
    scale = metric(x).scale if x in metrics else 1.0
    rows = [row for row in curve.rows if row.get(x) is not None and row.get(shown.name) is not None]
    at, mean = [row[x] * scale for row in rows], [row[shown.name] * shown.scale for row in rows]
    ax.plot(
        at,
        mean,
        label=curve.name,
        color=_COLOURS[index % len(_COLOURS)],
        linestyle=_LINES[index % len(_LINES)],
        marker=_MARKERS[index % len(_MARKERS)],
        markevery=max(1, len(rows) // _MARKED),
        gid="curve",
    )
    spread = [each * shown.scale for row in rows if (each := row.get(f"{shown.name}{DEVIATION}")) is not None]
    if rows and len(spread) == len(rows):
        low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        ax.fill_between(at, low, high, color=_COLOURS[index % len(_COLOURS)], alpha=0.18, linewidth=0)


def _x_label(x: XAxis, curves: Sequence[PlottedCurve]) -> str:
    if x == "round":
        return "Round"
    if x == "epsilon":
        simulated = " (simulated)" if any(curve.privacy.simulated for curve in curves) else ""
        return f"Guaranteed{simulated} ε spent"
    return metric(X_COLUMNS[x]).label
