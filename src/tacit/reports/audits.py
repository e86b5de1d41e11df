"""What attacks found, in words that a privacy officer can use, and as a chart beside what is guaranteed."""

from __future__ import annotations

from typing import NamedTuple

from tacit.audit import AuditResult, OneRunAudit, TrialsAudit
from tacit.privacy.statement import rounded_down, rounded_up
from tacit.reports.charts import Figure, colour, figure, with_legend
from tacit.reports.record import Record
from tacit.reports.words import Point

_FLAT = 4  # times all else: a claim that high would press the rest of the chart flat, and is told in words


class Attack(NamedTuple):
    """A section of the page; `broken` shouts, and is empty for a guarantee that survived."""

    id: str
    heading: str
    about: str
    points: list[Point]
    broken: str


def attacks(run: Record) -> list[Attack]:
    """The attacks on a run's config that are kept in its folder."""
    trials, once, found = run.findings.trials, run.findings.one_run, []
    if trials is not None:
        about = "the method, many times over, as its adversary would"
        found.append(Attack("attacked", "Attacked", about, [_many(run, trials), *_outcome(trials)], _broken(trials)))
    if once is not None:
        about = "all of it, made once more with records that are easy to find"
        found.append(
            Attack("attacked-once", "Attacked in one run", about, [_once(run, once), *_outcome(once)], _broken(once))
        )
    return found


def chart(found: TrialsAudit | None) -> Figure | None:
    """What is guaranteed and the most that was found at every δ tried; None where nothing is guaranteed.

    A claim is for the run's own δ, and is marked there.
    """
    if found is None or not found.points:
        return None
    most = {point.delta: point for point in sorted(found.points, key=lambda point: point.lower - point.guaranteed)}
    tried = sorted(most.values())
    above = [point for point in tried if point.lower > point.guaranteed]
    level, top = found.claimed_total, max(max(point.lower, point.guaranteed) for point in tried)
    curves = [
        _curve("guaranteed", 0, [(point.delta, point.guaranteed) for point in tried], "lines"),
        _curve("found, at least", 2, [(point.delta, point.lower) for point in tried], "lines+markers"),
    ]
    if level is not None and level <= _FLAT * top:
        curves.append(_curve("claimed", 1, [(found.delta, level)], "markers", symbol="line-ew-open", size=24))
    if above:
        marks = [(point.delta, point.lower) for point in above]
        curves.append(_curve("broken", 6, marks, "markers", symbol="x", size=10))
    drawn = figure(curves, "δ", {"title": {"text": "ε"}, "rangemode": "tozero"})
    assert drawn is not None
    drawn["layout"]["xaxis"] |= {"type": "log", "exponentformat": "power", "dtick": 1}
    return with_legend(drawn)


def _curve(name: str, index: int, points: list[tuple[float, float]], mode: str, **marker: object) -> Figure:
    shown = {"size": 7, "color": colour(index), "line": {"color": colour(index), "width": 3}}
    return {
        "type": "scatter",
        "mode": mode,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "name": name,
        "cliponaxis": False,
        "line": {"color": colour(index), "width": 2, "dash": "solid" if mode == "lines" else "dot"},
        "marker": shown | marker,
        "hovertemplate": f"δ = %{{x:.3g}}: {name} ε = %{{y:.3g}}<extra></extra>",
    }


def _many(run: Record, found: TrialsAudit) -> Point:
    target, noise = run.config.get("privacy", {}), "with the noise of the run’s settings"
    if target.get("epsilon"):
        formula = "by the paper’s formula " if target.get("calibration") == "paper" else ""
        noise = f"with noise set anew, {formula}for the run’s ε = {target['epsilon']:g} over these rounds"
    worlds = "one record, the worst there can be, is there, and in the others it is not"
    if run.privacy.unit == "node":
        worlds = "one node has the worst data there can be, and in the others it has other data"
    elif run.privacy.relation == "replace-one":
        worlds = "one record is the worst there can be, and in the others another is in its place"
    more = "Half as many networks more have all other records against it. " if found.profile else ""
    return Point(
        "What was attacked?",
        f"Not this very run, but its method: {found.algorithm} over {_rounds(found)} in {found.trials:,} little "
        f"networks, {noise}. In half of them {worlds}. {more}Who attacks knows all else, listens on all links, and "
        "tells from the messages which of the two it is. The clip bound is the run’s, and so, nearly, is the sampling "
        "rate; its model and data play no part.",
    )


def _once(run: Record, found: OneRunAudit) -> Point:
    other = "or its opposite is" if run.privacy.relation == "replace-one" else "or is not"
    return Point(
        "What was attacked?",
        f"The run’s whole config, run once more: its model, data, graph and {_rounds(found)}, with "
        f"{found.canaries:,} canaries among the records of node {found.node}. Each canary is there {other}, by a "
        f"coin. Who attacks listens on the links of that node, and made {found.guesses:,} guesses how coins fell, "
        f"of which {found.correct:,} were right.",
    )


def _outcome(found: AuditResult) -> list[Point]:
    known = "nothing is guaranteed"
    if found.guaranteed is not None:
        known = f"ε = {rounded_up(found.guaranteed)} is guaranteed at that δ"
    sure = f"{100 * found.confidence:.4g}% confidence"
    bound = (
        f"ε is at least {rounded_down(found.lower)} at δ = {found.delta:g}, with {sure}. For what was attacked {known}."
    )
    points = [Point("What was found?", bound), Point("Does the guarantee hold?", _verdict(found))]
    level = found.claimed_total
    if level is not None:
        scope = f" for {_rounds(found)} together" if found.claimed_for == "round" else ""
        end = (
            ", and more was found: the claim is refuted" if found.refuted else ". No more was found: it is not refuted"
        )
        points.append(Point("And the claim?", f"The formula of the method’s paper claims ε = {level:.4g}{scope}{end}."))
    return points


def _verdict(found: AuditResult) -> str:
    if found.guaranteed is None:
        return "There is none to break."
    if not found.holds:
        luck = 100 * (1 - found.confidence) * (2 if found.profile else 1)
        chance = f"By bad luck alone, at most {luck:.3g}% of audits like this one break a guarantee that is right."
        return f"No: {_breach(found)}. {chance}"
    tried = len({point.delta for point in found.points})
    where = f"at none of {tried} δ tried was more found" if tried > 1 else "no more was found"
    return (
        f"It survived: {where} than is guaranteed. An attack can break a guarantee and cannot prove one: "
        "the proof is in the accounting."
    )


def _broken(found: AuditResult) -> str:
    if found.holds:
        return ""
    return f"THE GUARANTEE IS BROKEN: {_breach(found)}. Rely on no ε of this page before it is known why."


def _breach(found: AuditResult) -> str:
    assert found.worst_point is not None
    delta, lower, guaranteed = found.worst_point
    return f"ε is at least {rounded_down(lower, 4)} at δ = {delta:g}, where ε = {rounded_up(guaranteed)} is guaranteed"


def _rounds(found: AuditResult) -> str:
    return "1 round" if found.rounds == 1 else f"{found.rounds:,} rounds"
