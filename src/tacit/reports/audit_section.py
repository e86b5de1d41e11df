"""The sections of a run's page about audits: one sentence, one picture, and how the attack works."""

from __future__ import annotations

from typing import NamedTuple

from tacit.audit import AuditResult, OneRunAudit, TrialsAudit
from tacit.privacy import rounded_down, rounded_up
from tacit.reports.audit_limits import limits_text
from tacit.reports.privacy_statement import StatementItem
from tacit.reports.run_record import RunRecord


class AuditSection(NamedTuple):
    """A section of the page.

    Attributes:
        sentence: What was found, beside the guarantee and the claim.
        more: What more trials would show.
        items: How the attack works, and what its result means.
        warning: Empty unless the guarantee is broken.
    """

    id: str
    heading: str
    about: str
    sentence: str
    more: str
    items: list[StatementItem]
    warning: str

    @property
    def picture(self) -> str:
        """The id of the picture."""
        return f"{self.id}-picture"


def audit_sections(run: RunRecord) -> list[AuditSection]:
    """One section per kind of audit in the run's folder."""
    trials, one_run, sections = run.audits.trials, run.audits.one_run, []
    if trials is not None:
        about = f"the method over {_rounds(trials)}, in many small networks"
        sections.append(_section("audit", "Audit of the method", about, _attacked_method(run, trials), trials))
    if one_run is not None:
        about = "the whole config, run once more with canary records"
        sections.append(_section("audit-one-run", "Audit of one run", about, _attacked_run(run, one_run), one_run))
    return sections


def _section(name: str, heading: str, about: str, attack: StatementItem, audit: AuditResult) -> AuditSection:
    items = [attack, StatementItem("Guarantee", _verdict(audit))]
    return AuditSection(name, heading, about, _sentence(audit), limits_text(audit), items, _warning(audit))


def _sentence(audit: AuditResult) -> str:
    """The lower bound beside the guarantee and the claim, in one sentence."""
    found = (
        f"The attack shows ε ≥ {rounded_down(audit.lower)} at δ = {audit.delta:g} with {100 * audit.confidence:.4g} % "
        "confidence"
    )
    if audit.guaranteed is None:
        guarantee = "nothing is guaranteed"
    elif audit.holds:
        guarantee = f"the guaranteed ε = {rounded_up(audit.guaranteed)} is not broken"
    else:
        guarantee = "THE GUARANTEE IS BROKEN"
    claim = audit.claimed_total
    if claim is None:
        return f"{found}; {guarantee}."
    scope = f" for {_rounds(audit)}" if audit.claimed_for == "round" else ""
    refuted = "refuted" if audit.refuted else "not refuted"
    return f"{found}; {guarantee}, and the claimed ε = {claim:.4g}{scope} is {refuted}."


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


def _verdict(audit: AuditResult) -> str:
    if audit.guaranteed is None:
        return "There is no guarantee to test."
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
