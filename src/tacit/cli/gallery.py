"""`tacit gallery`: mechanisms that are broken on purpose, attacked beside their sound twins."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line


@app.command()
def gallery(
    trials: Annotated[
        int, typer.Option(help="Networks attacked for each, half of them with the record.", min=40)
    ] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bounds.", min=0.5, max=0.9999)] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack nine broken mechanisms and their sound twins: the audit must tell them apart."""
    from tacit.audit.gallery import GALLERY
    from tacit.privacy.statement import rounded_down, rounded_up
    from tacit.runs import progress_counter

    rows = []
    with progress_counter("exhibits", len(GALLERY), 0) as tell:
        for name, exhibit in GALLERY.items():
            found, twin = (
                exhibit.examine(broken=b, trials=trials, confidence=confidence, seed=seed) for b in (True, False)
            )
            rows.append((name, inspect.getdoc(exhibit.broken) or "", found, twin))
            tell(f"{name}: {'missed' if found.holds else 'found'}")
    right = all(not found.holds and twin.holds for *_, found, twin in rows)
    if as_json:
        print_json(
            {
                "exhibits": {
                    name: {"mistake": mistake, "broken": found.as_dict(), "sound": twin.as_dict()}
                    for name, mistake, found, twin in rows
                }
            }
        )
    else:
        lines = [
            "| mistake | at δ | guaranteed ε | found | its sound twin: guaranteed | found | what is wrong |",
            "| --- |",
        ]
        for name, mistake, found, twin in rows:
            assert found.worst is not None
            point = found.worst
            other = next(each for each in twin.points if each.delta == point.delta)
            pairs = [f"{rounded_up(each.guaranteed, 3)} | {rounded_down(each.lower)}" for each in (point, other)]
            lines.append(f"| {name} | {point.delta:g} | {' | '.join(pairs)} | {mistake} |")
        print_line(aligned_table("\n".join(lines)))
        print_line(
            "Every mistake is found, and no sound twin accused." if right else "THE AUDIT DOES NOT TELL THEM APART."
        )
    if not right:
        raise typer.Exit(1)
