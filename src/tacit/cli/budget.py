"""`tacit budget`: the runs on a population, their total ε, and the budget of its records."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line


@app.command()
def budget(
    population: Annotated[str, typer.Argument(help='The declared population, or "#1" for one without a name.')],
    epsilon: Annotated[
        float | None, typer.Option(help="Set the budget: refuse runs that would bring the total ε above it.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ of the budget and of the total. Default: that of the budget, or 1e-5.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show all runs with secret noise on a population and their total ε, or set its budget."""
    from tacit.privacy import Budget, RecordsLedger, rounded_up, total_of_runs

    ledger = RecordsLedger()
    number, runs, limit = ledger.find(population)
    delta = delta if delta is not None else 1e-5 if limit is None else limit.delta
    if epsilon is not None:
        limit = Budget(epsilon, delta)
        ledger.set_budget(number, limit)
    total = total_of_runs(runs, delta)
    if as_json:
        rows: list[dict[str, Any]] = [{"title": r.title, "started": r.started, "ended": r.ended} for r in runs]
        stored = None if limit is None else {"epsilon": limit.epsilon, "delta": limit.delta}
        facts = {"population": population, "runs": rows, "budget": stored, "delta": delta}
        print_json({**facts, "total": total.epsilon, "total_reason": total.reason, "colluders": total.colluders})
        return
    for run in runs:
        state = "ended" if run.ended else "not ended, counted as planned"
        print_line(f"{run.started}: {run.title} ({state})")
    spent = f"none, because {total.reason}" if total.epsilon is None else f"ε = {rounded_up(total.epsilon)}"
    against = f", against an adversary with {total.colluders} colluding nodes" if total.colluders else ""
    print_line(f"Total of {total.runs} run{'' if total.runs == 1 else 's'}: {spent}, δ = {delta:g}{against}")
    print_line("Budget: none" if limit is None else f"Budget: ε = {limit.epsilon:g}, δ = {limit.delta:g}")
