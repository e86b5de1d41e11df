"""`tacit claims`: what papers say their methods cost, beside what those cost."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line


@app.command()
def claims(
    audit: Annotated[bool, typer.Option("--audit", help="Also attack the methods where an attack decides.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """The ε of five papers: as printed, by their own formulas, as guaranteed, and, with --audit, as attacks find."""
    from tacit.audit.papers import stated
    from tacit.audit.tried import TRIED
    from tacit.privacy.statement import rounded_up
    from tacit.runs import progress_counter

    rows = stated()
    with progress_counter("claims attacked", len(TRIED) if audit else 0, 0) as tell:
        tried = {}
        for paper in TRIED if audit else ():
            tried[paper] = TRIED[paper]()
            tell(paper)
    if as_json:
        print_json({"claims": [row.as_dict() for row in rows], "audits": {k: v.as_dict() for k, v in tried.items()}})
        return
    lines = ["| paper | printed ε | by its formula | guaranteed | δ | for each | published settings |", "| --- |"]
    for row in rows:
        spent = "none" if row.guaranteed is None else rounded_up(row.guaranteed)
        cells = [row.paper, f"{row.printed:g}", f"{row.formula:.4g}", spent, f"{row.delta:g}", row.unit]
        lines.append(f"| {' | '.join(cells)} | {row.setting}: {row.note} |")
    print_line(aligned_table("\n".join(lines)))
    for paper, result in tried.items():
        print_line(f"{paper}, attacked: {result.sentence()}.")
