"""`tacit claims`: the ε that papers claim, beside the ε that is guaranteed."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line


@app.command()
def claims(
    audit: Annotated[bool, typer.Option("--audit", help="Also attack the claims that an attack can refute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare the ε that five papers print with their formulas, with the guarantee and (--audit) with attacks."""
    from tacit.audit import REFUTATIONS, paper_claims
    from tacit.privacy import rounded_up
    from tacit.runs import ProgressCounter

    rows = paper_claims()
    refutations = {}
    with ProgressCounter("attacks", len(REFUTATIONS) if audit else 0, 0) as show:
        for paper in REFUTATIONS if audit else ():
            refutations[paper] = REFUTATIONS[paper]()
            show(paper)
    if as_json:
        audits = {paper: refutation.as_dict() for paper, refutation in refutations.items()}
        print_json({"claims": [row.as_dict() for row in rows], "audits": audits})
        return
    lines = ["| paper | printed ε | by its formula | guaranteed | δ | per | published settings |", "| --- |"]
    for row in rows:
        guaranteed = "none" if row.guaranteed is None else rounded_up(row.guaranteed)
        cells = [row.paper, f"{row.printed:g}", f"{row.formula:.4g}", guaranteed, f"{row.delta:g}", row.unit]
        lines.append(f"| {' | '.join(cells)} | {row.setting}: {row.note} |")
    print_line(aligned_table("\n".join(lines)))
    for paper, refutation in refutations.items():
        print_line(f"Attack on {paper}: {refutation.summary()}.")
