"""`tacit gallery`: broken mechanisms and their correct counterparts, audited."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line

if TYPE_CHECKING:
    from tacit.audit import TrialsAudit


class _Row(NamedTuple):
    name: str
    mistake: str
    broken: TrialsAudit
    correct: TrialsAudit


@app.command()
def gallery(
    trials: Annotated[
        int, typer.Option(help="Number of networks to attack per mechanism, half with the canary.", min=40)
    ] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bounds.", min=0.5, max=0.9999)] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Audit seventeen broken mechanisms and their correct counterparts. The audit must distinguish them.

    Exit code 1: a mistake was missed, or a correct mechanism was reported as broken.
    """
    rows = _audits(trials, confidence, seed)
    all_right = all(not row.broken.holds and row.correct.holds for row in rows)
    if as_json:
        print_json(
            {
                "entries": {
                    row.name: {
                        "mistake": row.mistake,
                        "broken": row.broken.as_dict(),
                        "correct": row.correct.as_dict(),
                    }
                    for row in rows
                }
            }
        )
    else:
        print_line(aligned_table(_table(rows)))
        print_line(
            "Every mistake was found, and no correct mechanism was reported as broken."
            if all_right
            else "THE AUDIT DOES NOT DISTINGUISH BROKEN FROM CORRECT MECHANISMS."
        )
    if not all_right:
        raise typer.Exit(1)


def _audits(trials: int, confidence: float, seed: int) -> list[_Row]:
    from tacit.audit import GALLERY
    from tacit.runs import ProgressCounter

    rows = []
    with ProgressCounter("mechanisms", len(GALLERY), 0) as show:
        for name, entry in GALLERY.items():
            broken, correct = (
                entry.audit(broken=broken, trials=trials, confidence=confidence, seed=seed) for broken in (True, False)
            )
            rows.append(_Row(name, inspect.getdoc(entry.broken) or "", broken, correct))
            show(f"{name}: {'missed' if broken.holds else 'found'}")
    return rows


def _table(rows: list[_Row]) -> str:
    """Markdown with the bounds of both mechanisms at the δ at which the broken one exceeds its guarantee most."""
    from tacit.privacy import rounded_down, rounded_up

    lines = ["| mistake | δ | guaranteed ε | found | correct: guaranteed ε | found | what is wrong |", "| --- |"]
    for row in rows:
        worst = row.broken.worst_point
        assert worst is not None
        other = next(point for point in row.correct.points if point.delta == worst.delta)
        bounds = [f"{rounded_up(point.guaranteed, 3)} | {rounded_down(point.lower)}" for point in (worst, other)]
        lines.append(f"| {row.name} | {worst.delta:g} | {' | '.join(bounds)} | {row.mistake} |")
    return "\n".join(lines)
