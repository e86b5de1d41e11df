"""Whether kept results reproduce a published claim: the comparisons of a claim, and their outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from tacit.reproduce.experiment import Experiment
from tacit.reproduce.paired import matching_row, paired_difference, summary_of
from tacit.reproduce.results import ResultRow, SeedSummary
from tacit.runs import ConfigSection

Labels = dict[str, str | list[str]]
_ERRORS = 2.0  # standard errors by which a difference over several seeds must exceed zero


class RowComparison(ConfigSection):
    """One statement about every row that has the labels `row`. Exactly one of the further keys but `metric` is set.

    Attributes:
        above, below: Labels of the row with which each row is compared, paired by seed.
        near_published: Largest distance of the mean from the published number.
        at_least, at_most: Bound of the mean.
        metric: What is compared; by default the experiment's first metric.
    """

    row: Labels = Field(default_factory=dict)
    above: dict[str, str] | None = None
    below: dict[str, str] | None = None
    near_published: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    metric: str | None = None

    @model_validator(mode="after")
    def _is_one_statement(self) -> Self:
        kinds = ("above", "below", "near_published", "at_least", "at_most")
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"A comparison needs exactly one of {', '.join(kinds)}")
        return self


class Outcome(NamedTuple):
    """How many comparisons hold, of those whose runs are there, and how many lack runs."""

    held: int
    compared: int
    missing: int


def compare(
    experiment: Experiment,
    rows: Sequence[ResultRow],
    comparisons: Sequence[RowComparison],
    only: Labels,
    calibration: str,
) -> Outcome:
    """The outcome of the comparisons for the rows that also have the labels `only`, with the noise of a calibration."""
    found = [
        _holds(experiment, rows, row, each, calibration)
        for each in comparisons
        for row in rows_with(rows, {**each.row, **only})
        if _applies(each, row, rows)
    ]
    return Outcome(found.count(True), len(found) - found.count(None), found.count(None))


def rows_with(rows: Sequence[ResultRow], labels: Mapping[str, str | list[str]]) -> Iterator[ResultRow]:
    """The rows that have the labels. A list accepts any of its labels."""
    accepted = {axis: [label] if isinstance(label, str) else label for axis, label in labels.items()}
    for row in rows:
        if all(row.labels.get(axis) in wanted for axis, wanted in accepted.items()):
            yield row


def _applies(comparison: RowComparison, row: ResultRow, rows: Sequence[ResultRow]) -> bool:
    """Whether the row is compared with another row, or with a published number that exists."""
    other = comparison.above or comparison.below
    if other is not None:
        return (found := matching_row(row.labels, other, rows)) is not None and found is not row
    return comparison.near_published is None or row.published is not None


def _holds(
    experiment: Experiment, rows: Sequence[ResultRow], row: ResultRow, comparison: RowComparison, calibration: str
) -> bool | None:
    """Whether a comparison holds for a row; None if its runs are missing or differ in length."""
    name, ours = comparison.metric or experiment.metrics[0], summary_of(row, calibration)
    other = comparison.above or comparison.below
    if other is not None:
        theirs = summary_of(matching_row(row.labels, other, rows), calibration)
        difference = paired_difference(name, ours, theirs)
        if difference is None:
            return None
        gain = difference.mean if comparison.above is not None else -difference.mean
        return gain > _ERRORS * (difference.standard_error or 0.0)
    mean = None if ours is None else ours.mean[name]
    if mean is None:
        return None if ours is None or not ours.errors else False
    if comparison.near_published is not None:
        published = row.published if name == experiment.metrics[0] else row.more_published.get(name)
        return published is not None and abs(mean - published) <= comparison.near_published
    if comparison.at_least is not None:
        return mean >= comparison.at_least
    return comparison.at_most is not None and mean <= comparison.at_most


def outcome_text(experiment: Experiment, shown: SeedSummary | None, outcome: Outcome) -> str:
    """The number of a claim's row, and how many comparisons hold.

    >>> axes = {"graph": {"ring": {}}}
    >>> experiment = Experiment.model_validate({"title": "T", "axes": axes, "chart": {"series": "graph"}})
    >>> runs = SeedSummary({"accuracy": 81.5}, {"accuracy": None}, 1, None, None, "run", 1e-4, [], [])
    >>> outcome_text(experiment, runs, Outcome(3, 4, 0)), outcome_text(experiment, None, Outcome(0, 0, 4))
    ('81.50 %; 3 of 4 hold', 'not run')
    """
    main = experiment.first_metric
    parts = [] if shown is None else [f"{shown.text(main.name)} {main.unit}".strip()]
    if outcome.compared:
        parts.append(f"{outcome.held} of {outcome.compared} hold")
    return "; ".join(parts) or "not run"


def verdict(outcomes: Sequence[Outcome], summaries: Sequence[SeedSummary], lengths: str) -> str:
    """Reproduced or not, at the claimed and at the guaranteed ε, or not run and why.

    >>> verdict([Outcome(4, 4, 0)], [], ""), verdict([Outcome(3, 4, 2)], [], ""), verdict([Outcome(4, 4, 2)], [], "")
    ('reproduced', 'not reproduced', 'not run: 2 of 6 comparisons have no runs')
    >>> verdict([Outcome(4, 4, 0), Outcome(3, 4, 0)], [], "")
    'reproduced at the claimed ε, not reproduced at the guaranteed ε'
    """
    if not any(each.compared for each in outcomes):
        return "not run"
    if any(each.is_short for each in summaries):
        return f"not run at the published length ({lengths} rounds)"
    sides = [_side_verdict(each) for each in outcomes]
    words = sides[0] if len(set(sides)) == 1 else f"{sides[0]} at the claimed ε, {sides[1]} at the guaranteed ε"
    few = min((len(each.seeds) for each in summaries if each.seeds), default=0) == 1
    return f"{words} (one seed)" if few else words


def _side_verdict(outcome: Outcome) -> str:
    """One comparison that fails refutes a claim. It is confirmed only if no comparison lacks runs."""
    if outcome.held < outcome.compared:
        return "not reproduced"
    if outcome.missing or not outcome.compared:
        return f"not run: {outcome.missing} of {outcome.compared + outcome.missing} comparisons have no runs"
    return "reproduced"
