"""Checks of the ledgers of a run themselves: all of them are there, and nothing in them was changed."""

from __future__ import annotations

from tacit.runs.verification.evidence import Evidence, Findings, LedgerEvidence


def check_ledgers(evidence: Evidence, findings: Findings) -> None:
    """The ledgers must be complete, and their digests those that were recorded."""
    facts = evidence.facts
    findings.expect(
        len(evidence.ledgers) == facts.processes,
        f"{len(evidence.ledgers)} of {facts.processes} ledgers are here: those of all processes are needed",
    )
    for part in evidence.ledgers:
        _check_ledger(part, findings)
        findings.expect(part.facts.rounds == facts.rounds, f"{part.name} ends after another round than the run")


def _check_ledger(part: LedgerEvidence, findings: Findings) -> None:
    name, facts, count = part.name, part.facts, len(part.releases)
    findings.expect(part.intact, f"{name}: noise multipliers or sampling rates were changed")
    if not findings.expect(facts.ended is not None, f"{name} has no record of the end of the run"):
        return
    findings.expect(facts.releases == count, f"{name} has {count} releases, but the run has made {facts.releases}")
    findings.expect(
        part.ledger.facts.releases_digest(from_start=True) == facts.releases_digest,
        f"{name}: the releases are not those that the run has made",
    )
    if mark := part.ledger.facts.first_changed_mark():
        findings.differences.append(f"{name}: the releases before round {mark.round} were changed")
    longest = facts.all_rounds
    findings.expect(
        facts.rounds is not None and (longest is None or facts.rounds <= longest),
        f"{name} records {facts.rounds} rounds, but the run has at most {longest}",
    )
    findings.expect(
        facts.stopped is not None or facts.rounds == longest or longest is None,
        f"{name} records {facts.rounds} of {longest} rounds and no reason for an early end",
    )
