"""The chart of what an attack can reach at most: true positives against false positives."""

from __future__ import annotations

import numpy as np

from tacit.privacy import FALSE_ALARMS, Privacy, detection_bound, trade_off_bound, trade_off_corners
from tacit.reports.charts import Figure, line_figure
from tacit.reports.privacy_statement import share_text

_GRID = np.linspace(0.0, 1.0, 101)  # one point per per cent, to hover over


def attack_chart(privacy: Privacy) -> Figure | None:
    """The bound that (ε, δ) sets to every attack, above the diagonal of chance; None if nothing is guaranteed.

    The point at 1 % false positives is marked.
    """
    if privacy.guaranteed is None:
        return None
    alarms = np.unique(np.concatenate([_GRID, trade_off_corners(privacy.guaranteed, privacy.delta)]))
    detected = trade_off_bound(privacy.guaranteed, privacy.delta, alarms)
    bound = {
        "type": "scatter",
        "mode": "lines",
        "x": (100 * alarms).tolist(),
        "y": (100 * detected).tolist(),
        "line": {"color": "--run-0", "width": 2},
        "hovertemplate": "%{x:.1f} % false positives: at most %{y:.1f} % success<extra></extra>",
    }
    chance = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, 100],
        "y": [0, 100],
        "line": {"color": "--muted", "width": 1, "dash": "dash"},
        "fill": "tonexty",
        "fillcolor": "--tint",
        "hoverinfo": "skip",
    }
    per_cent = {"range": [0, 103], "dtick": 25, "ticksuffix": " %"}
    y_axis = {**per_cent, "title": {"text": "Success, at most", "standoff": 8}}
    figure = line_figure([bound, chance, _marked(privacy.guaranteed, privacy.delta)], "False positives", y_axis, 230)
    assert figure is not None, "there are curves"
    figure["layout"]["xaxis"] |= per_cent
    figure["layout"]["margin"] |= {"l": 70, "r": 26}  # room for the title and for the last label
    return figure


def _marked(epsilon: float, delta: float) -> Figure:
    """The point of the sentence beside the chart."""
    success = detection_bound(epsilon, delta)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [100 * FALSE_ALARMS],
        "y": [100 * success],
        "text": [f"\N{NO-BREAK SPACE}{share_text(success)} at {100 * FALSE_ALARMS:.0f} %"],
        "textposition": "bottom right" if success > 0.9 else "middle right",
        "textfont": {"color": "--ink", "size": 12},
        "cliponaxis": False,
        "marker": {"size": 9, "color": "--run-0", "line": {"color": "--card", "width": 2}},
        "hoverinfo": "skip",
    }
