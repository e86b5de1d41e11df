"""`tacit account`: ε of a config or a mechanism without training, the noise for a target ε, and checks of claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tacit.cli.app import app
from tacit.cli.claim import claim_line, claim_verdict
from tacit.cli.output import err, print_json, print_line
from tacit.cli.privacy_lines import privacy_line
from tacit.errors import TacitError, unknown

if TYPE_CHECKING:
    from tacit.privacy import Privacy, Release, Sampling

MECHANISMS = ("gaussian", "laplace")
_ADVERSARY = "an observer of every release"


class RelationOption(StrEnum):
    """The values of `--relation`."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


class AccountResult(NamedTuple):
    """The privacy of `releases`, made `times` times, and the noise multiplier if it was computed for a target ε."""

    privacy: Privacy
    releases: Sequence[Release]
    times: int = 1
    noise_multiplier: float | None = None


@app.command()
def account(
    what: Annotated[
        str | None, typer.Argument(help="gaussian, laplace, or a config file. Default: the embedded example.")
    ] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise scale divided by the sensitivity.")] = None,
    sample_rate: Annotated[
        float | None,
        typer.Option(help="Share of the records in one draw; 1 / batches for a permutation. Default: 1, all records."),
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="poisson, without-replacement, permutation or none. Default: that of the config, or poisson."
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of releases, each from a draw of its own. Default: 1.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ. Default: that of the config, or 1e-5.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Compute the noise for this guaranteed ε.")] = None,
    relation: Annotated[
        RelationOption | None,
        typer.Option(
            help="Neighbouring data sets. Default: those of the config, or the first that the sampling supports."
        ),
    ] = None,
    claimed: Annotated[
        float | None, typer.Option(help="A claimed ε: also print whether it holds, does not hold, or is undecided.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, set in the config.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> None:
    """Compute ε without training, or the noise for a target ε.

    With --claimed, also print whether a claimed ε holds. The exit code is 0 whatever the verdict; programs read
    "claim_holds" from --json: true, false, or null if it is undecided.
    """
    if claimed is not None and not 0 <= claimed < math.inf:
        raise TacitError(f"--claimed must be a finite number of at least 0, got {claimed}")
    if what in MECHANISMS:
        if set_:
            raise TacitError(f"--set can be used only with a config, not with {what}")
        drawn = _sampling(sampling, sample_rate, relation)
        count = 1 if steps is None else steps
        answer = _mechanism(what, noise_multiplier, drawn, count, 1e-5 if delta is None else delta, epsilon)
    else:
        if (noise_multiplier, sample_rate, steps) != (None, None, None):
            raise TacitError("--noise-multiplier, --sample-rate and --steps can be used only with gaussian or laplace")
        asked = {"privacy.epsilon": epsilon, "privacy.delta": delta, "batch.relation": relation}
        drawing = {"batch.size": ""} if sampling == "none" else {"batch.sampling": sampling}
        answer = _config(
            what, [*(set_ or ()), *(f"{key}={value}" for key, value in (asked | drawing).items() if value is not None)]
        )
    _print(answer, claimed, what in MECHANISMS, as_json)


def _print(answer: AccountResult, claimed: float | None, one_mechanism: bool, as_json: bool) -> None:
    privacy, solved = answer.privacy, answer.noise_multiplier
    verdict = None if claimed is None else claim_verdict(claimed, privacy, answer.releases, answer.times)
    if as_json:
        noise = {} if solved is None else {"noise_multiplier": solved}
        print_json({"privacy": privacy.as_dict(), **noise, **({} if verdict is None else verdict.as_dict())})
        return
    print_line(privacy_line(privacy))
    if solved is not None:
        print_line(f"Noise multiplier{'' if one_mechanism else ' of round 0'}: {solved:.6g}")
    if verdict is not None:
        print_line(claim_line(verdict))


def _sampling(kind: str | None, sample_rate: float | None, relation: RelationOption | None) -> Sampling:
    import numpy as np

    from tacit.privacy import Sampling, SamplingKind, sampling_kinds

    kind, rate = kind or "poisson", 1.0 if sample_rate is None else sample_rate
    scheme = sampling_kinds.registered(kind)
    assert isinstance(scheme, type)
    assert issubclass(scheme, SamplingKind)
    if not 0 < rate <= 1:
        raise TacitError(f"--sample-rate must be above 0 and at most 1, got {sample_rate}")
    if scheme.epoch(0, rate) is not None:
        batches = round(1 / rate)
        if abs(rate * batches - 1) > 0.01:
            raise TacitError(f"--sample-rate must be 1 / (number of batches) for {kind} sampling, got {sample_rate}")
        rate = 1 / batches
    if not scheme.is_random and rate < 1:
        raise TacitError(f"--sampling {kind} uses all records, got --sample-rate {sample_rate}: omit it")
    return Sampling(kind, np.array([rate]), scheme.relations[0] if relation is None else relation.value)


def _mechanism(
    kind: str, noise_multiplier: float | None, sampling: Sampling, steps: int, delta: float, epsilon: float | None
) -> AccountResult:
    from tacit.privacy import Gaussian, Laplace, Privacy, Release, calibrate
    from tacit.privacy import epsilon as guaranteed_epsilon

    if steps < 1:
        raise TacitError(f"--steps must be at least 1, got {steps}")
    last_epoch = sampling.scheme.epoch(steps - 1, float(sampling.rate[0]))
    times = steps if last_epoch is None else last_epoch + 1  # an epoch counts as its worst draw

    def releases_at(noise: float) -> list[Release]:
        return [Release(0, kind, Gaussian(noise) if kind == "gaussian" else Laplace(noise), sampling)]

    if noise_multiplier is not None and epsilon is None:
        if not noise_multiplier > 0:
            raise TacitError(f"--noise-multiplier must be positive, got {noise_multiplier}")
        noise = noise_multiplier
    elif epsilon is not None and noise_multiplier is None:
        noise = calibrate(releases_at, epsilon, delta, times=times)
    else:
        raise TacitError("Set either --noise-multiplier to compute ε, or --epsilon to compute the noise")
    spent = guaranteed_epsilon(releases_at(noise), delta, times=times)
    too_little = "there is too little noise for any bound" if delta else f"no ε holds for {kind} noise at δ = 0"
    reason = None if math.isfinite(spent) else too_little
    privacy = Privacy(
        None if reason else spent, None, delta, relation=sampling.relation, adversary=_ADVERSARY, reason=reason
    )
    return AccountResult(privacy, releases_at(noise), times, None if epsilon is None else noise)


def _config(what: str | None, settings: list[str]) -> AccountResult:
    path = None if what is None else Path(what)
    if path is not None and not path.exists() and not path.suffix:
        raise unknown("mechanism or config", str(what), MECHANISMS)
    from tacit.privacy import plan
    from tacit.runs import Config, from_config

    config = Config.load(path, settings)
    with err.status("Accounting"):
        run = from_config(config, secret_noise=True)  # it is not started, so nothing is released
        privacy = run.planned()
    planned = run.algorithm.privacy
    releases = plan(planned, run.rounds, planned.sampling(run.task), run.task.nodes)
    solved = None if config.privacy.epsilon is None else float(releases[0].multipliers.max())
    return AccountResult(privacy, releases, noise_multiplier=solved)
