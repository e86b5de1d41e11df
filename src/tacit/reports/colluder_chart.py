"""The chart of ε against every number of colluders, for runs with paired noise."""

from __future__ import annotations

from tacit.privacy import Privacy, rounded_up
from tacit.reports.charts import Figure, line_figure


def colluder_chart(privacy: Privacy) -> Figure | None:
    """ε against 0, 1, … N − 1 colluders, with the stated one marked; None for independent noise."""
    curve = privacy.against_colluders
    if not curve or privacy.guaranteed is None:
        return None
    numbers = list(range(len(curve)))
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": numbers,
        "y": curve,
        "line": {"color": "--run-0", "width": 2},
        "hovertemplate": "%{x} colluders: ε = %{y:.4g}<extra></extra>",
    }
    stated = stated_number(privacy)
    marked = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [stated],
        "y": [curve[stated]],
        "text": [f"\N{NO-BREAK SPACE}stated: {rounded_up(curve[stated])}"],
        "textposition": "top center",
        "textfont": {"color": "--ink", "size": 12},
        "marker": {"color": "--run-0", "size": 11},
        "hoverinfo": "skip",
    }
    axis = {"rangemode": "tozero", "title": {"text": "ε, at most", "standoff": 8}}
    return line_figure([line, marked], "Nodes that collude with the eavesdropper", axis, 230)


def stated_number(privacy: Privacy) -> int:
    """The largest number of colluders against whom the stated ε holds."""
    assert privacy.against_colluders is not None
    assert privacy.guaranteed is not None
    held = [k for k, each in enumerate(privacy.against_colluders) if each <= privacy.guaranteed * (1 + 1e-9)]
    return max(held, default=0)
