"""`tacit account`: ε of a config or a mechanism without training, the noise for a target ε, and checks of claims."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line
from tacit.cli.privacy_lines import warn_if_weak
from tacit.errors import TacitError, unknown

if TYPE_CHECKING:
    from tacit.claims import AccountResult

MECHANISMS = ("gaussian", "laplace")


class RelationOption(StrEnum):
    """The values of `--relation`."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


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
            help="poisson, without-replacement, permutation, cyclic or none. Default: that of the config, or poisson."
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
    from tacit.claims import check_claim

    if claimed is not None:
        check_claim(claimed)
    if what in MECHANISMS:
        if set_:
            raise TacitError(f"--set can be used only with a config, not with {what}")
        drawn = sampling or "poisson", 1.0 if sample_rate is None else sample_rate, relation
        count, at = 1 if steps is None else steps, 1e-5 if delta is None else delta
        answer = _mechanism(what, drawn, count, at, noise_multiplier, epsilon)
    else:
        if (noise_multiplier, sample_rate, steps) != (None, None, None):
            raise TacitError("--noise-multiplier, --sample-rate and --steps can be used only with gaussian or laplace")
        drawing = {"batch.size": "all"} if sampling == "none" else {"batch.sampling": sampling}
        asked = {"privacy.epsilon": epsilon, "privacy.delta": delta, "batch.relation": relation} | drawing
        answer = _config(what, set_ or [], asked)
        warn_if_weak(answer.privacy.guaranteed)
    _print(answer, claimed, what in MECHANISMS, as_json)


def _mechanism(
    kind: str,
    drawn: tuple[str, float, RelationOption | None],
    steps: int,
    delta: float,
    noise_multiplier: float | None,
    epsilon: float | None,
) -> AccountResult:
    from tacit.claims import account_for_noise, sampling_of_steps

    name, rate, relation = drawn
    return account_for_noise(
        "gaussian" if kind == "gaussian" else "laplace",
        sampling_of_steps(name, rate, None if relation is None else relation.value),
        steps,
        delta,
        noise_multiplier=noise_multiplier,
        epsilon=epsilon,
    )


def _print(answer: AccountResult, claimed: float | None, one_mechanism: bool, as_json: bool) -> None:
    privacy, solved = answer.privacy, answer.noise_multiplier
    verdict = None if claimed is None else answer.verdict(claimed)
    if as_json:
        noise = {} if solved is None else {"noise_multiplier": solved}
        print_json({"privacy": privacy.as_dict(), **noise, **({} if verdict is None else verdict.as_dict())})
        return
    print_line(privacy.line)
    if solved is not None:
        print_line(f"Noise multiplier{'' if one_mechanism else ' of round 0'}: {solved:.6g}")
    if verdict is not None:
        print_line(str(verdict))


def _config(what: str | None, settings: list[str], asked: Mapping[str, object]) -> AccountResult:
    path = None if what is None else Path(what)
    if path is not None and not path.exists() and not path.suffix:
        raise unknown("mechanism or config", str(what), MECHANISMS)
    from tacit.claims import AccountResult
    from tacit.privacy import plan
    from tacit.runs import Config, from_config

    config = Config.load(path, [*settings, *(f"{key}={value}" for key, value in asked.items() if value is not None)])
    with err.status("Accounting"):
        run = from_config(config, secret_noise=True)  # it is not started, so nothing is released
        privacy = run.planned()
    planned = run.algorithm.privacy
    releases = plan(planned, run.rounds, planned.sampling(run.task), run.task.nodes)
    first = list(planned.releases(0, run.task.nodes, planned.sampling(run.task)))
    solved = None if config.privacy.epsilon is None else float(first[0].multipliers.max())
    return AccountResult(privacy, releases, noise_multiplier=solved)
