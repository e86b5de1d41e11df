"""The chart of what an attack can reach at most: true positive rate against false positive rate."""

from __future__ import annotations

import numpy as np

from tacit.privacy import Privacy, trade_off_bound, trade_off_corners
from tacit.reports.charts import Figure, line_figure

_GRID = np.linspace(0.0, 1.0, 101)  # one point per per cent, to hover over


def attack_chart(privacy: Privacy) -> Figure | None:
    """The bound that (ε, δ) sets to every test, above the diagonal of chance; None if nothing is guaranteed."""
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
        "hovertemplate": "%{x:.1f} % false alarms: at most %{y:.1f} % detected<extra></extra>",
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
    per_cent = {"range": [0, 101], "dtick": 25, "ticksuffix": " %"}
    figure = line_figure(
        [bound, chance], "False alarms", {**per_cent, "title": {"text": "Detected, at most", "standoff": 8}}, 230
    )
    assert figure is not None, "there are curves"
    figure["layout"]["xaxis"] |= per_cent
    figure["layout"]["margin"] |= {"l": 70, "r": 26}  # room for the title and for the last label
    return figure
