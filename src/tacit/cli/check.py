"""`tacit check`: whether an algorithm sends anything about the records other than by releases."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line
from tacit.cli.privacy_lines import privacy_line

_FOUND = 1  # exit code if a value escapes


@app.command()
def check(
    algorithm: Annotated[str, typer.Argument(help="A registered algorithm, or your own: path/to/mine.py:MyAlgorithm.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, set in the config, such as algorithm.lr=0.1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Test that an algorithm sends values from the records only by releases.

    The algorithm runs twice, with different records and the same released values. Messages, metrics and files must be
    the same, bit for bit. Exit code 1 if something differs. A run that passes proves nothing about other settings: test
    the settings that you use.
    """
    from tacit.audit import check_escapes
    from tacit.runs import Config

    quick = ["rounds=5", "graph=ring", "graph.nodes=4", f"algorithm={algorithm}"]
    with err.status("Running twice"):
        found = check_escapes(Config.load(None, [*quick, *(set_ or [])]))
    if as_json:
        facts = {"messages": found.messages, "releases": found.releases, "escapes": list(found.escapes)}
        print_json({"algorithm": algorithm, **facts, "privacy": found.privacy.as_dict()})
    else:
        print_line(f"{algorithm}: compared {found.messages} messages and {found.releases} releases of two runs")
        for escape in found.escapes:
            print_line(f"Escape: {escape}.")
        if not found.escapes:
            print_line("No value depends on the records other than through releases.")
        print_line(privacy_line(found.privacy))
    if found.escapes:
        raise typer.Exit(_FOUND)
