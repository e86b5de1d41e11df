"""The summary of all papers: one line for every table and figure, from the kept cells and experiments/summary.toml."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from tacit.errors import TacitError
from tacit.registry import invalid
from tacit.reproduce.estimate import estimate_sentence
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import experiment_folders, load_experiment
from tacit.reproduce.kept import kept_estimate_file, kept_rows
from tacit.reproduce.lengths import all_summaries, length_range
from tacit.reproduce.paired import summary_of
from tacit.reproduce.results import ResultRow, SeedSummary
from tacit.reproduce.verdicts import Labels, RowComparison, compare, outcome_text, rows_with, verdict
from tacit.runs import ConfigSection

_FILE = "summary.toml"
_HEAD = ("", "published claim", "at claimed ε", "at guaranteed ε", "seeds", "rounds", "verdict", "data")


class Claim(ConfigSection):
    """What a table or figure of a paper shows, and how it is checked.

    Attributes:
        paper, item, where: The method, the table or figure, and its section or page.
        claim: What the paper concludes from it, with its numbers.
        experiment: The experiment that repeats it.
        holds: The comparisons that must hold.
        show: Labels of the row whose number the summary shows.
        claimed, guaranteed: Labels of the rows at the claimed and at the guaranteed ε, of an experiment whose noise is
            not calibrated. Without them, all its rows stand at the claimed ε.
        not_run: Why it is not repeated.
        link: The part of a page that describes it.
    """

    paper: str
    item: str
    where: str
    claim: str
    experiment: str | None = None
    holds: list[RowComparison] = Field(default_factory=list)
    show: Labels = Field(default_factory=dict)
    claimed: Labels = Field(default_factory=dict)
    guaranteed: Labels | None = None
    not_run: str | None = None
    link: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_checked_or_not_run(cls, value: Any) -> Any:
        if isinstance(value, dict) and ("not_run" in value) == ("holds" in value):
            raise ValueError("A claim needs comparisons (holds), or a reason why it is not run (not_run)")
        return value


class ClaimsFile(ConfigSection):
    """The content of experiments/summary.toml."""

    claim: list[Claim]


def read_claims() -> list[Claim]:
    """The published claims. Labels and metrics are checked against the experiments."""
    path = next((each for folder in experiment_folders() if (each := folder / _FILE).is_file()), None)
    if path is None:
        raise TacitError(f"{_FILE} is missing in {', '.join(map(str, experiment_folders()))}")
    return claims_in(path)


def claims_in(path: Path) -> list[Claim]:
    """The claims of a file."""
    try:
        return ClaimsFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).claim
    except tomllib.TOMLDecodeError as error:
        raise TacitError(f"{path} is not valid TOML: {error}") from None
    except ValidationError as error:
        raise invalid(str(path), error) from None


def summary_table(claims: Sequence[Claim] | None = None) -> str:
    """The Markdown tables of all papers, one line per claim."""
    chosen = read_claims() if claims is None else claims
    papers = dict.fromkeys(claim.paper for claim in chosen)
    return "\n\n".join(_paper_table(paper, [each for each in chosen if each.paper == paper]) for paper in papers)


def _paper_table(paper: str, claims: Sequence[Claim]) -> str:
    lines = [_HEAD, ("---",) * len(_HEAD), *map(summary_line, claims)]
    return f"## {paper}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summary_line(claim: Claim) -> tuple[str, ...]:
    """The cells of a claim's line."""
    item, text = claim.item, f"{claim.claim} ({claim.where})"
    data = f"[{claim.experiment or 'why'}]({claim.link})" if claim.link else claim.experiment or "–"
    if claim.experiment is None or claim.not_run:
        return (item, text, "–", "–", "–", "–", f"not run: {claim.not_run}", data)
    experiment = load_experiment(claim.experiment)
    rows = kept_rows(claim.experiment, experiment)
    if not all_summaries(rows):
        return (item, text, "–", "–", "–", "–", f"not run: {_why_not(claim.experiment)}", data)
    return (item, text, *_outcome_cells(claim, experiment, rows), data)


def _outcome_cells(claim: Claim, experiment: Experiment, rows: Sequence[ResultRow]) -> tuple[str, ...]:
    sides = _sides(claim, experiment)
    outcomes = [compare(experiment, rows, claim.holds, only, calibration) for only, calibration in sides]
    texts = [
        outcome_text(experiment, _shown(claim, rows, only, calibration), outcome)
        for (only, calibration), outcome in zip(sides, outcomes, strict=True)
    ]
    found = [summary_of(row, calibration) for only, calibration in sides for row in rows_with(rows, only)]
    used = [each for each in found if each is not None]
    seeds = sorted({len(each.seeds) for each in used})
    lengths = length_range(used)
    return (
        *texts,
        *["–"] * (2 - len(texts)),
        "–" if not seeds else f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
        lengths or "–",
        verdict(outcomes, used, lengths),
    )


def _sides(claim: Claim, experiment: Experiment) -> list[tuple[Labels, str]]:
    """The rows and the calibration at the claimed ε, and those at the guaranteed ε if there are any."""
    if experiment.calibrations:
        return [(claim.claimed, "paper"), (claim.guaranteed or {}, "guaranteed")]
    return [(claim.claimed, "plain"), *([] if claim.guaranteed is None else [(claim.guaranteed, "plain")])]


def _shown(claim: Claim, rows: Sequence[ResultRow], only: Labels, calibration: str) -> SeedSummary | None:
    row = next(rows_with(rows, {**claim.show, **only}), None) if claim.show else None
    return summary_of(row, calibration)


def _why_not(name: str) -> str:
    file = kept_estimate_file(name)
    if not file.is_file():
        return f"`tacit reproduce {name} --keep`"
    return f"`tacit reproduce {name} --keep`. {estimate_sentence(json.loads(file.read_text(encoding='utf-8')))}"
