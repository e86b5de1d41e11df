"""`tacit threats`: what a config guarantees, adversary by adversary, before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app, emit, err, say
from tacit.errors import TacitError


@app.command()
def threats(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; without one, the embedded example.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the config.")] = None,
    colluding: Annotated[str | None, typer.Option(help="Nodes that put together what they know, such as 0,3.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """The ε of a planned run against each adversary, and why it is that."""
    from tacit.privacy.statement import rounded_up
    from tacit.reproduce.reproduce import aligned
    from tacit.runs import Config, from_config
    from tacit.threats import Colluders, assess

    together = [] if colluding is None else [Colluders(_nodes(colluding))]
    settings = Config.load(config, set_ or [])
    with err.status("Accounting"):
        found = assess(from_config(settings), threats=together, planned=True)
    if as_json:
        emit(found.as_dict())
        return
    lines = ["| adversary | ε at most | why |", "| --- |"]
    for each in found.against:
        spent = "none" if each.epsilon is None else rounded_up(each.epsilon)
        lines.append(f"| {each.adversary} | {spent} | {each.why} |")
    say(aligned("\n".join(lines)))
    one = found.against[0]
    say(f"δ = {one.delta:g}, for each {one.unit} of a node that is not the adversary's own, relation {one.relation}.")
    if found.note:
        say(found.note)


def _nodes(listed: str) -> tuple[int, ...]:
    try:
        return tuple(int(node) for node in listed.split(","))
    except ValueError:
        raise TacitError(f'--colluding takes node numbers with commas between, such as 0,3, not "{listed}"') from None
