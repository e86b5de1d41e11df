"""`tacit audit`: the method of a config, attacked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app, emit, say


@app.command()
def audit(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; without one, the embedded example.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the config.")] = None,
    trials: Annotated[int, typer.Option(help="Networks attacked, half of them with the record.")] = 20_000,
    rounds: Annotated[int, typer.Option(help="Rounds attacked; the noise is set for these.")] = 4,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.", min=0.5, max=0.9999)] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack a method as its adversary would, and bound its ε from below."""
    from tacit.audit import audit as attacked
    from tacit.runs.config import Config
    from tacit.runs.progress import counting

    settings = Config.load(config, set_ or [])
    total = min(rounds, settings.rounds)
    with counting("rounds of the attack", total, 0) as tell:
        found = attacked(
            settings,
            trials=trials,
            rounds=rounds,
            confidence=confidence,
            seed=seed,
            watch=lambda done: tell(f"round {done} of {trials:,} networks"),
        )
    if as_json:
        emit(found.as_dict())
    else:
        say(found.sentence())
    if not found.holds:
        raise typer.Exit(1)
