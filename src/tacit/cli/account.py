"""`tacit account`: ε of a config or a mechanism without training, or the noise for a target ε."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line
from tacit.cli.privacy_lines import privacy_line
from tacit.errors import TacitError, unknown

if TYPE_CHECKING:
    from tacit.privacy import Privacy, Relation

MECHANISMS = ("gaussian", "laplace")
_ADVERSARY = "an observer of every release"


class RelationOption(StrEnum):
    """The values of `--relation`."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


class AccountResult(NamedTuple):
    """The privacy, and the noise multiplier if it was computed for a target ε."""

    privacy: Privacy
    noise_multiplier: float | None = None


@app.command()
def account(
    what: Annotated[
        str | None, typer.Argument(help="gaussian, laplace, or a config file. Default: the embedded example.")
    ] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise scale divided by the sensitivity.")] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="Poisson sampling rate per step. Default: 1, all records.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of releases. Default: 1.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ. Default: that of the config, or 1e-5.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Compute the noise for this guaranteed ε.")] = None,
    relation: Annotated[
        RelationOption | None, typer.Option(help="Neighbouring data sets. Default: those of the config, or add-remove.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, set in the config.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> None:
    """Compute ε without training, or the noise for a target ε."""
    if what in MECHANISMS:
        if set_:
            raise TacitError(f"--set can be used only with a config, not with {what}")
        rate, count = 1.0 if sample_rate is None else sample_rate, 1 if steps is None else steps
        neighbours: Relation = "add-remove" if relation is None else relation.value
        answer = _mechanism(what, noise_multiplier, rate, count, 1e-5 if delta is None else delta, epsilon, neighbours)
    else:
        if (noise_multiplier, sample_rate, steps) != (None, None, None):
            raise TacitError("--noise-multiplier, --sample-rate and --steps can be used only with gaussian or laplace")
        asked = {"privacy.epsilon": epsilon, "privacy.delta": delta, "batch.relation": relation}
        answer = _config(
            what, [*(set_ or ()), *(f"{key}={value}" for key, value in asked.items() if value is not None)]
        )
    solved = answer.noise_multiplier
    if as_json:
        print_json({"privacy": answer.privacy.as_dict(), **({} if solved is None else {"noise_multiplier": solved})})
        return
    print_line(privacy_line(answer.privacy))
    if solved is not None:
        print_line(f"Noise multiplier{'' if what in MECHANISMS else ' of round 0'}: {solved:.6g}")


def _mechanism(
    kind: str,
    noise_multiplier: float | None,
    sample_rate: float,
    steps: int,
    delta: float,
    epsilon: float | None,
    relation: Relation,
) -> AccountResult:
    import numpy as np

    from tacit.privacy import Gaussian, Laplace, Privacy, Release, Sampling, calibrate
    from tacit.privacy import epsilon as guaranteed_epsilon

    if not 0 < sample_rate <= 1:
        raise TacitError(f"--sample-rate must be above 0 and at most 1, got {sample_rate}")
    if steps < 1:
        raise TacitError(f"--steps must be at least 1, got {steps}")

    sampling = Sampling("poisson", np.array([sample_rate]), relation)

    def releases_at(noise: float) -> list[Release]:
        return [Release(0, kind, Gaussian(noise) if kind == "gaussian" else Laplace(noise), sampling)]

    if noise_multiplier is not None and epsilon is None:
        if not noise_multiplier > 0:
            raise TacitError(f"--noise-multiplier must be positive, got {noise_multiplier}")
        noise = noise_multiplier
    elif epsilon is not None and noise_multiplier is None:
        noise = calibrate(releases_at, epsilon, delta, times=steps)
    else:
        raise TacitError("Set either --noise-multiplier to compute ε, or --epsilon to compute the noise")
    spent = guaranteed_epsilon(releases_at(noise), delta, times=steps)
    reason = None if math.isfinite(spent) else "there is too little noise for any bound"
    privacy = Privacy(None if reason else spent, None, delta, relation=relation, adversary=_ADVERSARY, reason=reason)
    return AccountResult(privacy, None if epsilon is None else noise)


def _config(what: str | None, settings: list[str]) -> AccountResult:
    path = None if what is None else Path(what)
    if path is not None and not path.exists() and not path.suffix:
        raise unknown("mechanism or config", str(what), MECHANISMS)
    from tacit.runs import Config, from_config

    config = Config.load(path, settings)
    with err.status("Accounting"):
        run = from_config(config, secret_noise=True)  # it is not started, so nothing is released
        privacy = run.planned()
    if config.privacy.epsilon is None:
        return AccountResult(privacy)
    planned = run.algorithm.privacy
    first = next(iter(planned.releases(0, run.task.nodes, planned.sampling(run.task))))
    return AccountResult(privacy, float(first.multipliers.max()))
