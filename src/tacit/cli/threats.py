"""`tacit threats`: the ε of a config against each adversary, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, err, print_json, print_line
from tacit.errors import TacitError


@app.command()
def threats(
    config: Annotated[Path | None, typer.Argument(help="TOML file. Default: the embedded example.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Override a setting: key=value.")] = None,
    colluding: Annotated[str | None, typer.Option(help="Nodes that pool all they know, for example 0,3.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show the ε of a planned run against each adversary, with the reason."""
    from tacit.privacy import Coalition, rounded_up
    from tacit.runs import Config, from_config
    from tacit.threats import analyse_threats

    adversaries = [] if colluding is None else [Coalition(_node_numbers(colluding))]
    settings = Config.load(config, set_ or [])
    with err.status("Accounting"):
        analysis = analyse_threats(from_config(settings, secret_noise=True), adversaries=adversaries, planned=True)
    if as_json:
        print_json(analysis.as_dict())
        return
    lines = ["| adversary | ε at most | reason |", "| --- |"]
    for bound in analysis.bounds:
        epsilon = "none" if bound.epsilon is None else rounded_up(bound.epsilon)
        lines.append(f"| {bound.title} | {epsilon} | {bound.reason} |")
    print_line(aligned_table("\n".join(lines)))
    first = analysis.bounds[0]
    print_line(
        f"δ = {first.delta:g}, per {first.unit} ({first.relation}) at a node that the adversary does not control."
    )
    if analysis.against_colluders is not None:
        curve = (f"{number}: {rounded_up(each)}" for number, each in enumerate(analysis.against_colluders))
        print_line(f"ε by the number of colluders: {', '.join(curve)}.")
    if analysis.note:
        print_line(analysis.note)


def _node_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(node) for node in text.split(","))
    except ValueError:
        raise TacitError(f'--colluding takes node numbers separated by commas, such as 0,3, got "{text}"') from None
