"""The sections of a run's page about audits: what was attacked, the lower bound that was found, and the verdict."""

from __future__ import annotations

from typing import NamedTuple

from tacit.audit import AuditResult, OneRunAudit, TrialsAudit
from tacit.privacy import rounded_down, rounded_up
from tacit.reports.charts import LOG_AXIS, Figure, line_figure, series_colour, with_legend
from tacit.reports.privacy_statement import StatementItem
from tacit.reports.run_record import RunRecord

_MAX_CLAIM_RATIO = 4  # a claim so many times larger than all else would flatten the chart


class AuditSection(NamedTuple):
    """A section of the page; `warning` is empty unless the guarantee is broken."""

    id: str
    heading: str
    about: str
    items: list[StatementItem]
    warning: str


def audit_sections(run: RunRecord) -> list[AuditSection]:
    """One section per kind of audit in the run's folder."""
    trials, one_run, sections = run.audits.trials, run.audits.one_run, []
    if trials is not None:
        items = [_attacked_method(run, trials), *_outcome(trials)]
        about = "the method, in many small networks"
        sections.append(AuditSection("audit", "Audit of the method", about, items, _warning(trials)))
    if one_run is not None:
        items = [_attacked_run(run, one_run), *_outcome(one_run)]
        about = "the whole config, run once more with canary records"
        sections.append(AuditSection("audit-one-run", "Audit of one run", about, items, _warning(one_run)))
    return sections


def audit_chart(audit: TrialsAudit | None) -> Figure | None:
    """Guaranteed ε and the lower bound at every tested δ; None without a guarantee.

    The claim holds for the run's δ only and is marked there.
    """
    if audit is None or not audit.points:
        return None
    largest = {point.delta: point for point in sorted(audit.points, key=lambda point: point.lower - point.guaranteed)}
    points = sorted(largest.values())
    broken = [point for point in points if point.lower > point.guaranteed]
    claim, top = audit.claimed_total, max(max(point.lower, point.guaranteed) for point in points)
    curves = [
        _curve("guaranteed", 0, [(point.delta, point.guaranteed) for point in points], "lines"),
        _curve("lower bound", 2, [(point.delta, point.lower) for point in points], "lines+markers"),
    ]
    if claim is not None and claim <= _MAX_CLAIM_RATIO * top:
        curves.append(_curve("claimed", 1, [(audit.delta, claim)], "markers", symbol="line-ew-open", size=24))
    if broken:
        marks = [(point.delta, point.lower) for point in broken]
        curves.append(_curve("broken", 6, marks, "markers", symbol="x", size=10))
    figure = line_figure(curves, "δ", {"title": {"text": "ε"}, "rangemode": "tozero"})
    assert figure is not None
    figure["layout"]["xaxis"] |= LOG_AXIS
    return with_legend(figure)


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


def _attacked_method(run: RunRecord, audit: TrialsAudit) -> StatementItem:
    target, noise = run.config.get("privacy", {}), "The noise is that of the run’s settings."
    if target.get("epsilon"):
        formula = " by the paper’s formula" if target.get("calibration") == "paper" else ""
        noise = f"The noise is calibrated{formula} to ε = {target['epsilon']:g} over these rounds."
    worlds = "Half of them contain one worst-case record, the others do not."
    if run.privacy.unit == "node":
        worlds = "In half of them one node has worst-case data, in the others it has different data."
    elif run.privacy.relation == "replace-one":
        worlds = "In half of them one record is a worst case, in the others it is replaced by another."
    opposed = " In half as many further networks, all other records work against it." if audit.profile else ""
    return StatementItem(
        "Attack",
        f"{audit.algorithm} over {_rounds(audit)} in {audit.trials:,} small networks, not this run itself. {worlds}"
        f"{opposed} {noise} The attacker knows everything else, sees every message, and decides which "
        "of the two it is. The clip bound is the run’s, the sampling rate nearly so; model and data do not matter.",
    )


def _attacked_run(run: RunRecord, audit: OneRunAudit) -> StatementItem:
    other = "inverted otherwise" if run.privacy.relation == "replace-one" else "left out otherwise"
    return StatementItem(
        "Attack",
        f"The whole config, run once more: its model, data, graph and {_rounds(audit)}, with {audit.canaries:,} canary "
        f"records at node {audit.node}. Each canary is included with probability ½ and {other}. The attacker sees the "
        f"links of that node. It made {audit.guesses:,} guesses, of which {audit.correct:,} were correct.",
    )


def _outcome(audit: AuditResult) -> list[StatementItem]:
    bound = f"ε ≥ {rounded_down(audit.lower)} at δ = {audit.delta:g}, with {100 * audit.confidence:.4g} % confidence."
    guaranteed = "Nothing is guaranteed for it."
    if audit.guaranteed is not None:
        guaranteed = f"Guaranteed for it: ε = {rounded_up(audit.guaranteed)}."
    items = [StatementItem("Lower bound", f"{bound} {guaranteed}"), StatementItem("Guarantee", _verdict(audit))]
    claim = audit.claimed_total
    if claim is not None:
        scope = f" for {_rounds(audit)}" if audit.claimed_for == "round" else ""
        verdict = "Refuted: the lower bound is larger." if audit.refuted else "Not refuted."
        items.append(StatementItem("Claim", f"The paper’s formula claims ε = {claim:.4g}{scope}. {verdict}"))
    return items


def _verdict(audit: AuditResult) -> str:
    if audit.guaranteed is None:
        return "There is none."
    if not audit.holds:
        error = 100 * (1 - audit.confidence) * (2 if audit.profile else 1)
        return f"Broken: {_breach(audit)}. A correct guarantee fails at most {error:.3g} % of such audits by chance."
    tested = len({point.delta for point in audit.points})
    where = f"at all {tested} tested δ" if tested > 1 else "at this δ"
    return (
        f"Not broken: the lower bound stays below the guaranteed ε {where}. "
        "An audit can break a guarantee but not prove it; the proof is the accounting."
    )


def _warning(audit: AuditResult) -> str:
    if audit.holds:
        return ""
    return f"THE GUARANTEE IS BROKEN: {_breach(audit)}. Do not rely on any ε on this page until the cause is known."


def _breach(audit: AuditResult) -> str:
    assert audit.worst_point is not None
    delta, lower, guaranteed = audit.worst_point
    return f"ε ≥ {rounded_down(lower, 4)} at δ = {delta:g}, but ε = {rounded_up(guaranteed)} is guaranteed"


def _rounds(audit: AuditResult) -> str:
    return "1 round" if audit.rounds == 1 else f"{audit.rounds:,} rounds"
