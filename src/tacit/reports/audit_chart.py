"""The pictures of an audit: what was found beside what is guaranteed, and the same at every tested δ."""

from __future__ import annotations

from tacit.audit import AuditResult, OneRunAudit, TrialsAudit
from tacit.privacy import rounded_down, rounded_up
from tacit.reports.audit_limits import audit_limits
from tacit.reports.charts import LOG_AXIS, LOG_RATIO, Figure, line_figure, series_colour, with_legend
from tacit.reports.formats import format_claim

_FOUND, _GUARANTEED, _CLAIMED, _LIMIT, _BROKEN = "--run-2", "--run-0", "--card", "--rule", "--run-6"


def audit_picture(audit: AuditResult) -> Figure:
    """One bar each for the lower bound, the guaranteed and the claimed ε, and the most that the audit could show.

    The axis is logarithmic if one bar would hide another.
    """
    limit = audit_limits(audit).perfect
    bars = [("Shown by the attack", audit.lower, f"≥ {rounded_down(audit.lower)}", _FOUND if audit.holds else _BROKEN)]
    if audit.guaranteed is not None:
        bars.append(("Guaranteed", audit.guaranteed, rounded_up(audit.guaranteed), _GUARANTEED))
    if audit.claimed_total is not None:
        bars.append(("Claimed", audit.claimed_total, format_claim(audit.claimed_total), _CLAIMED))
    bars.append((f"Most that {_size(audit)}<br>can show", limit, f"≥ {rounded_down(limit)}", _LIMIT))
    values = [value for _, value, *_ in bars if value > 0]
    far_apart = max(values) > LOG_RATIO * min(values)
    trace: Figure = {
        "type": "bar",
        "orientation": "h",
        "y": [name for name, *_ in bars],
        "x": [value for _, value, *_ in bars],
        "text": [text for *_, text, _ in bars],
        "textposition": "outside",
        "textfont": {"color": "--ink"},
        "cliponaxis": False,
        "marker": {
            "color": [colour for *_, colour in bars],
            "line": {"color": ["--muted" if colour == _CLAIMED else colour for *_, colour in bars], "width": 1.5},
        },
        "hovertemplate": "%{y}: ε %{text}<extra></extra>",
    }
    figure = line_figure([trace], "ε", {"autorange": "reversed", "ticks": "", "tickfont": {"color": "--ink"}}, 230)
    assert figure is not None
    figure["layout"] |= {"bargap": 0.35, "margin": {"l": 10, "r": 56, "t": 4, "b": 40}}
    figure["layout"]["xaxis"] |= LOG_AXIS if far_apart else {}
    return figure


def _size(audit: AuditResult) -> str:
    if isinstance(audit, OneRunAudit):
        return f"{audit.canaries:,} canaries"
    assert isinstance(audit, TrialsAudit)
    return f"{audit.trials:,} trials"


def profile_chart(audit: AuditResult | None) -> Figure | None:
    """Guaranteed ε and the lower bound at every tested δ; None without a guarantee or with a single δ.

    The claim holds for the run's δ only and is marked there. The axis is logarithmic if the claim would hide the rest.
    """
    if audit is None or len(audit.points) < 2:
        return None
    largest = {point.delta: point for point in sorted(audit.points, key=lambda point: point.lower - point.guaranteed)}
    points = sorted(largest.values())
    broken = [point for point in points if point.lower > point.guaranteed]
    claim, top = audit.claimed_total, max(max(point.lower, point.guaranteed) for point in points)
    curves = [
        _curve("guaranteed", 0, [(point.delta, point.guaranteed) for point in points], "lines"),
        _curve("lower bound", 2, [(point.delta, point.lower) for point in points], "lines+markers"),
    ]
    if claim is not None:
        curves.append(_curve("claimed", 1, [(audit.delta, claim)], "markers", symbol="line-ew-open", size=24))
    if broken:
        marks = [(point.delta, point.lower) for point in broken]
        curves.append(_curve("broken", 6, marks, "markers", symbol="x", size=10))
    far_apart = claim is not None and claim > LOG_RATIO * top
    y_axis = {**LOG_AXIS} if far_apart else {"rangemode": "tozero"}
    figure = line_figure(curves, "δ", {"title": {"text": "ε"}, **y_axis})
    assert figure is not None
    figure["layout"]["xaxis"] |= LOG_AXIS
    return with_legend(figure)


def audit_figures(trials: TrialsAudit | None, one_run: OneRunAudit | None) -> dict[str, Figure]:
    """The figures of the audits of a run, by their ids on the page."""
    pictures = {"audit-picture": trials, "audit-one-run-picture": one_run}
    figures = {name: audit_picture(audit) for name, audit in pictures.items() if audit is not None}
    profile = profile_chart(trials)
    return figures if profile is None else {**figures, "audit-chart": profile}


def _curve(name: str, index: int, points: list[tuple[float, float]], mode: str, **marker: object) -> Figure:
    colour = series_colour(index)
    return {
        "type": "scatter",
        "mode": mode,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "name": name,
        "cliponaxis": False,
        "line": {"color": colour, "width": 2, "dash": "solid" if mode == "lines" else "dot"},
        "marker": {"size": 7, "color": colour, "line": {"color": colour, "width": 3}} | marker,
        "hovertemplate": f"δ = %{{x:.3g}}: {name} ε = %{{y:.3g}}<extra></extra>",
    }
