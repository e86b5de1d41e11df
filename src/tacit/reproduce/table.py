"""Published, measured at the claimed ε, measured at the guaranteed ε: one row for each combination of labels."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tacit.privacy.statement import rounded_up
from tacit.reproduce.cells import Cell
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.running import Result

Point = dict[str, float | None]


@dataclass(frozen=True)
class Measured:
    """Mean over seeds of the last accuracy, in percent; ε is the largest over seeds, None where there is none."""

    accuracy: float | None
    deviation: float | None
    runs: int
    guaranteed: float | None
    claimed: float | None
    delta: float
    curve: list[Point]
    errors: list[str]

    @property
    def text(self) -> str:
        """
        >>> Measured(84.123, 0.456, 3, 1.0, 0.9, 1e-4, [], []).text
        '84.12 ± 0.46'
        """
        if self.accuracy is None:
            return "failed"
        return f"{self.accuracy:.2f}" + (f" ± {self.deviation:.2f}" if self.deviation is not None else "")


@dataclass(frozen=True)
class Row:
    labels: dict[str, str]
    published: float | None
    paper: Measured | None
    guaranteed: Measured | None
    plain: Measured | None
    """Of a method that calibrates nothing, such as Non-Private."""


def rows(experiment: Experiment, cells: Sequence[Cell], results: Mapping[str, Result]) -> list[Row]:
    """The table, in the order of the axes."""
    groups: dict[tuple[tuple[str, str], ...], dict[str | None, list[Result]]] = {}
    for cell in cells:
        group = groups.setdefault(tuple(cell.labels.items()), {})
        group.setdefault(cell.calibration, []).append(results[cell.key])
    return [
        Row(
            dict(labels),
            _published(experiment.published, [label for _, label in labels]),
            *(summary(group[how]) if how in group else None for how in ("paper", "guaranteed", None)),
        )
        for labels, group in groups.items()
    ]


def summary(results: Sequence[Result]) -> Measured:
    """Several seeds in one."""
    ended = [100 * result["accuracy"] for result in results if result["accuracy"] is not None]
    return Measured(
        accuracy=statistics.fmean(ended) if len(ended) == len(results) else None,
        deviation=statistics.stdev(ended) if 1 < len(ended) == len(results) else None,
        runs=len(results),
        guaranteed=_largest([result["privacy"]["guaranteed"] for result in results]),
        claimed=_largest([result["privacy"]["claimed"] for result in results]),
        delta=results[0]["privacy"]["delta"],
        curve=_curve([result["history"] for result in results]),
        errors=[result["error"] for result in results if result["error"]],
    )


def flat(experiment: Experiment, table: Sequence[Row]) -> list[dict[str, Any]]:
    """The table as plain columns: for CSV, and, with words in place of None, for people."""
    return [
        {
            **{axis: row.labels.get(axis) for axis in experiment.axes},
            "published": row.published,
            "at claimed ε": _text(row.paper or row.plain),
            "really guaranteed ε": _epsilon(row.paper),
            "at guaranteed ε": _text(row.guaranteed or row.plain),
            "its claimed ε": _epsilon(row.guaranteed, "claimed"),
        }
        for row in table
    ]


def markdown(experiment: Experiment, table: Sequence[Row]) -> str:
    """
    >>> whole = {"title": "T", "axes": {"graph": {"ring": {}}}, "chart": {"series": "graph"}}
    >>> experiment = Experiment.model_validate(whole)
    >>> print(markdown(experiment, [Row({"graph": "ring"}, 81.5, None, None, None)]))
    | graph | published | at claimed ε | really guaranteed ε | at guaranteed ε | its claimed ε |
    | --- | --- | --- | --- | --- | --- |
    | ring | 81.5 | – | – | – | – |
    """
    lines = flat(experiment, table)
    head = list(lines[0])
    body = [["–" if line[key] is None else str(line[key]) for key in head] for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body])


def as_csv(experiment: Experiment, table: Sequence[Row]) -> str:
    """A line a row, with the numbers apart."""
    text = io.StringIO()
    writer = csv.writer(text)
    keys = ("accuracy", "deviation", "runs", "guaranteed", "claimed")
    columns = [f"{how}_{key}" for how in ("paper", "guaranteed", "plain") for key in keys]
    writer.writerow([*experiment.axes, "published", *columns])
    for row in table:
        numbers = [getattr(part, key, None) for part in (row.paper, row.guaranteed, row.plain) for key in keys]
        writer.writerow([*(row.labels.get(axis) for axis in experiment.axes), row.published, *numbers])
    return text.getvalue()


def as_list(table: Sequence[Row]) -> list[dict[str, Any]]:
    """For JSON, curves included."""
    return [asdict(row) for row in table]


def _published(numbers: Mapping[str, Any], labels: Sequence[str]) -> float | None:
    found: Any = numbers
    for label in labels:
        found = found.get(label) if isinstance(found, Mapping) else found
    return found if isinstance(found, float | int) else None


def _curve(histories: Sequence[Sequence[Mapping[str, Any]]]) -> list[Point]:
    """The mean history, up to where the shortest ends."""
    return [
        {key: _mean([point[key] for point in points]) for key in points[0]} for points in zip(*histories, strict=False)
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _text(measured: Measured | None) -> str | None:
    return None if measured is None else measured.text


def _epsilon(measured: Measured | None, which: str = "guaranteed") -> str | None:
    value = None if measured is None else getattr(measured, which)
    return None if value is None else rounded_up(value, 3)
