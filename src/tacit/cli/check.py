"""`tacit check`: whether an algorithm sends anything about the records other than by releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.runs import Config

_REFUTED = "No privacy is guaranteed: values depend on the records other than through releases"
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

    The algorithm runs twice, with different records and the same released values. Messages, metrics, files and warnings
    must be the same, bit for bit, and so must the parameters at which released gradients are taken. Exit code 1 if
    something differs. A run that passes proves nothing about other settings: test the settings that you use.
    """
    from tacit.audit import check_escapes

    with err.status("Running twice"):
        found = check_escapes(_quick_config(algorithm, set_ or []))
    if as_json:
        facts = {"messages": found.messages, "releases": found.releases, "escapes": list(found.escapes)}
        print_json({"algorithm": algorithm, **facts, "privacy": found.privacy.as_dict()})
    else:
        print_line(f"{algorithm}: compared {found.messages} messages and {found.releases} releases of two runs")
        for escape in found.escapes:
            print_line(f"Escape: {escape}.")
        if not found.escapes:
            print_line("No value depends on the records other than through releases.")
        refuted = bool(found.escapes) and found.privacy.guaranteed is not None
        print_line(_REFUTED if refuted else found.privacy.line)
    if found.escapes:
        raise typer.Exit(_FOUND)


def _quick_config(algorithm: str, settings: list[str]) -> Config:
    """A short run of the algorithm. It has the example's target ε only if the noise can be calibrated."""
    from tacit.runs import Config, build_algorithm

    quick = ["rounds=12", "graph=ring", "graph.nodes=4", f"algorithm={algorithm}"]
    config = Config.load(None, [*quick, *settings])
    if {"privacy", "privacy.epsilon"} & {setting.partition("=")[0].strip() for setting in settings}:
        return config
    try:
        build_algorithm(config.algorithm).with_noise(np.ones(1))
    except TacitError:
        return Config.load(None, [*quick, "privacy.epsilon=", *settings])
    return config
