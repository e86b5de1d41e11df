"""The largest lower bounds on ε that an audit of a given size can show."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.audit import AuditResult, MembershipGuesses, OneRunAudit, TrialsAudit, lower_bound
from tacit.privacy import rounded_down, trade_off_bound

MORE = 10  # how many times as many trials the page compares with
_TESTED_SHARE = 0.75  # of the trials and of the canaries: the others train the attack
_RATES = np.geomspace(1e-5, 0.5, 400)  # false positive rates of the attacks that are considered


class AuditLimits(NamedTuple):
    """What an audit can show.

    Attributes:
        perfect: The lower bound of an attack that is always right.
        attained: The lower bound to expect of an attack that attains the guaranteed ε; None if nothing is guaranteed
            or it is not known.
    """

    perfect: float
    attained: float | None


def audit_limits(audit: AuditResult, times: int = 1) -> AuditLimits:
    """The limits of an audit with `times` as many trials or canaries."""
    if isinstance(audit, OneRunAudit):
        canaries = times * (audit.canaries - -(-audit.canaries // 4))
        perfect = MembershipGuesses(canaries, times * audit.guesses, times * audit.guesses)
        return AuditLimits(perfect.lower(audit.delta, audit.confidence), None)
    assert isinstance(audit, TrialsAudit)
    tested = int(_TESTED_SHARE * times * audit.trials / 2)  # with the canary, and as many without
    perfect_bound = lower_bound(tested, tested, 0, tested, audit.delta, audit.confidence)
    return AuditLimits(perfect_bound, _attained(audit, tested))


def limits_text(audit: AuditResult) -> str:
    """What more trials would show, in words."""
    now, more = audit_limits(audit), audit_limits(audit, MORE)
    if isinstance(audit, OneRunAudit):
        return (
            f"Even if all {audit.guesses:,} guesses were correct, {audit.canaries:,} canaries would show no more than "
            f"ε ≥ {rounded_down(now.perfect)}; {MORE * audit.canaries:,} canaries, no more than "
            f"ε ≥ {rounded_down(more.perfect)}."
        )
    assert isinstance(audit, TrialsAudit)
    count, larger = f"{audit.trials:,}", f"{MORE * audit.trials:,}"
    text = (
        f"Even a perfect attack would show no more than ε ≥ {rounded_down(now.perfect)} in {count} trials, and "
        f"ε ≥ {rounded_down(more.perfect)} in {larger}."
    )
    if now.attained is None or more.attained is None:
        return text
    text += (
        f" An attack that attains the guaranteed ε would show about ε ≥ {rounded_down(now.attained)} in {count} "
        f"trials, and ε ≥ {rounded_down(more.attained)} in {larger}."
    )
    if audit.lower >= now.attained:
        return text
    return f"{text} The rest of the gap is not due to the number of trials: the attack is weaker, or ε is not tight."


def _attained(audit: TrialsAudit, tested: int) -> float | None:
    """The best lower bound of the attacks on the trade-off curve of the guaranteed ε, with the expected counts."""
    if audit.guaranteed is None:
        return None
    rates = _RATES[_RATES * tested >= 1]
    success = trade_off_bound(audit.guaranteed, audit.delta, rates)
    found = [
        lower_bound(round(tested * true), tested, round(tested * false), tested, audit.delta, audit.confidence)
        for true, false in zip(success, rates, strict=True)
    ]
    return min(max(found, default=0.0), audit.guaranteed)
