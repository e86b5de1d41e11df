"""The charts of an experiment as one SVG file, drawn from kept results."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tacit.reports.experiment_page import chart_panels
from tacit.reports.run_panels import ChartPanel
from tacit.reproduce import Experiment, ResultRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_COLUMNS, _PANEL = 3, (3.6, 2.7)  # panels per row, inches
_MOST_PANELS = 24
_STYLE: Any = {"font.size": 7, "svg.fonttype": "none", "svg.hashsalt": "tacit", "axes.linewidth": 0.6}
_DIGEST = re.compile(r"data ([0-9a-f]{64})")
_END = "<!-- text {} -->\n"  # the digest of all text before it, so that a file edited by hand is noticed


def chart_digest(experiment: Experiment, rows: Sequence[ResultRow]) -> str:
    """Identifies what the charts show: titles, axes and every point to six digits."""
    panels = [[each.heading, each.about, _rounded(each.figure)] for each in _drawn(experiment, rows)]
    return _sha256(json.dumps(panels, sort_keys=True))


def digest_in(svg: str) -> str | None:
    """The digest of the data from which a file was drawn; None if it has none, or if its text was changed since."""
    found, text = _DIGEST.search(svg), svg[: svg.rfind("<!--")]
    return found[1] if found and svg == text + _END.format(_sha256(text)) else None


def chart_svg(experiment: Experiment, rows: Sequence[ResultRow]) -> str:
    """All charts of an experiment as SVG text. It contains the digest of its data."""
    import matplotlib as mpl  # an extra, and slow to import
    from matplotlib.figure import Figure as Canvas

    panels = _drawn(experiment, rows)
    wide, high = min(_COLUMNS, len(panels)), math.ceil(len(panels) / _COLUMNS)
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(_PANEL[0] * wide, _PANEL[1] * high + 0.5), layout="constrained")
        axes = canvas.subplots(high, wide, squeeze=False).flat
        names: dict[str, Any] = {}
        for ax, panel in zip(axes, panels, strict=False):
            names |= _draw(ax, panel)
        for ax in list(axes)[len(panels) :]:
            ax.set_axis_off()
        canvas.legend(names.values(), names.keys(), loc="outside lower center", ncols=4, frameon=False)
        text = io.StringIO()
        about = {"Description": f"data {chart_digest(experiment, rows)}", "Date": None, "Creator": None}
        canvas.savefig(text, format="svg", metadata=about)
    drawn = "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
    return drawn + _END.format(_sha256(drawn))


def _drawn(experiment: Experiment, rows: Sequence[ResultRow]) -> list[ChartPanel]:
    """The panels that have data. A page with very many facets shows the first."""
    return [panel for panel in chart_panels(experiment, rows) if panel.figure and panel.figure["data"]][:_MOST_PANELS]


def _draw(ax: Axes, panel: ChartPanel) -> dict[str, Any]:
    """Draw one panel, and return what stands for each series in the legend."""
    assert panel.figure is not None
    layout, data = panel.figure["layout"], panel.figure["data"]
    places = list(dict.fromkeys(x for trace in data if trace["type"] == "bar" for x in trace["x"]))
    names: dict[str, Any] = {}
    for i, trace in enumerate(data):
        colour = _COLOURS[trace.get("meta", i) % len(_COLOURS)]
        spread = trace.get("error_y", {}).get("array")
        if trace["type"] == "bar":
            width = 0.8 / len(data)
            x = [places.index(each) + (i - (len(data) - 1) / 2) * width for each in trace["x"]]
            names[trace["name"]] = ax.bar(x, trace["y"], width, yerr=spread, color=colour, error_kw={"lw": 0.6})
        else:
            marks = trace.get("mode") == "markers"
            style = {"lw": 1.2, "color": colour, "elinewidth": 0.6, "ls": "" if marks else "-", "marker": "x" * marks}
            y = [math.nan if value is None else value for value in trace["y"]]
            names[trace["name"]] = ax.errorbar(trace["x"], y, spread, **style)
    if places:
        ax.set_xticks(range(len(places)), places)
    if layout["yaxis"].get("type") == "log":
        ax.set_yscale("log")
    elif "range" in layout["yaxis"]:
        ax.set_ylim(layout["yaxis"]["range"])
    ax.set_title(f"{panel.heading}: {panel.about}" if panel.about else panel.heading, fontsize=6.5, wrap=True)
    ax.set_xlabel(layout["xaxis"].get("title", {}).get("text", ""))
    ax.set_ylabel(layout["yaxis"].get("title", {}).get("text", ""))
    ax.spines[["top", "right"]].set_visible(False)
    return names


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _rounded(value: Any) -> Any:
    """Numbers to six digits, so that the last bits of a mean do not matter."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
