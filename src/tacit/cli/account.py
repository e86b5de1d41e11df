"""`tacit account`: ε without training, from a config or for a mechanism, and the noise for an ε."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import dp_accounting as dp
import numpy as np
import typer

from tacit.cli.app import app, emit, err, out
from tacit.errors import TacitError
from tacit.privacy.bounded import Relation

class Neighbours(StrEnum):
    """Neighbouring data sets, as the command line spells them."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


_ADVERSARY = "sees every released value and knows every record but one"


@app.command()
def account(
    what: Annotated[str | None, typer.Argument(help="gaussian, laplace, or a config; else the embedded example.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise divided by sensitivity.")] = None,
    sample_rate: Annotated[float, typer.Option(help="Share of the records in a step (Poisson sampling).")] = 1.0,
    steps: Annotated[int, typer.Option(help="How often the mechanism is used.")] = 1,
    delta: Annotated[float | None, typer.Option(help="δ; for a config, its own.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Solve for the noise that gives this ε.")] = None,
    relation: Annotated[Neighbours, typer.Option(help="What counts as neighbouring data.")] = Neighbours.ADD_REMOVE,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the config.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """What privacy costs, before anything is run."""
    if what in ("gaussian", "laplace"):
        if set_:
            raise TacitError("--set goes with a config")
        at = 1e-5 if delta is None else delta
        result = _mechanism(what, noise_multiplier, sample_rate, steps, at, epsilon, relation.value)
    else:
        if noise_multiplier is not None or sample_rate != 1 or steps != 1:
            raise TacitError("--noise-multiplier, --sample-rate and --steps go with gaussian or laplace, not with a config")
        settings = list(set_ or ())
        settings += [f"privacy.epsilon={epsilon}"] if epsilon is not None else []
        settings += [f"privacy.delta={delta}"] if delta is not None else []
        result = _config(None if what is None else Path(what), settings)
    privacy = result["privacy"]
    if as_json:
        emit({**result, "privacy": privacy.as_dict()})
        return
    out.print(privacy.sentence(), highlight=False)
    if "noise_multiplier" in result:
        out.print(f"Noise multiplier that gives it: {result['noise_multiplier']:.6g}", highlight=False)


def _mechanism(
    kind: str,
    noise_multiplier: float | None,
    sample_rate: float,
    steps: int,
    delta: float,
    epsilon: float | None,
    relation: Relation,
) -> dict[str, Any]:
    from tacit.privacy.accountant import epsilon as guaranteed
    from tacit.privacy.calibration import calibrate
    from tacit.privacy.events import mechanism_event, sampled_event
    from tacit.privacy.statement import Privacy

    if (noise_multiplier is None) == (epsilon is None):
        raise TacitError("give either --noise-multiplier, to get ε, or --epsilon, to get the noise")
    if noise_multiplier is not None and not noise_multiplier > 0:
        raise TacitError(f"--noise-multiplier must be positive, not {noise_multiplier}")
    if not 0 < sample_rate <= 1:
        raise TacitError(f"--sample-rate must be in (0, 1], not {sample_rate}")
    if steps < 1:
        raise TacitError(f"--steps must be at least 1, not {steps}")

    def event_at(noise: float) -> dp.DpEvent:
        one = sampled_event(mechanism_event(kind, noise), "poisson", sample_rate, relation)
        return dp.SelfComposedDpEvent(one, steps)

    solved = {}
    if noise_multiplier is None:
        assert epsilon is not None
        noise_multiplier = calibrate(event_at, epsilon, delta, relation)
        solved = {"noise_multiplier": noise_multiplier}
    spent = guaranteed(event_at(noise_multiplier), delta, relation)
    return {"privacy": Privacy(spent, None, delta, relation=relation, adversary=_ADVERSARY), **solved}


def _config(path: Path | None, settings: list[str]) -> dict[str, Any]:
    from tacit.runs import Config, from_config

    config = Config.load(path, settings)
    with err.status("Accounting"):
        run = from_config(config)
        result: dict[str, Any] = {"privacy": run.planned()}
    if config.privacy.epsilon is not None:
        first = next(iter(run.algorithm.releases(0, run.task.nodes)))
        result["noise_multiplier"] = float(first.mechanism.multipliers(run.task.n).max())
    return result
