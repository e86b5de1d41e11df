"""The result of a sweep: one row per setting, the best config, and what the sweep cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from tacit.errors import TacitError
from tacit.privacy import rounded_up
from tacit.runs import Config, canonical_settings
from tacit.runs.metrics import Metric, Result
from tacit.sweeps.cells import SweepCell, value_text
from tacit.sweeps.charging import SweepPrivacy
from tacit.sweeps.grid import Point
from tacit.sweeps.judging import JudgeMode

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SweepRow:
    """One setting, summarised over its seeds.

    Attributes:
        point: The swept values.
        mean: The judged metric, as it is measured; None if a run has none.
        deviation: Its standard deviation over the seeds; None with one seed.
        seeds: The number of runs.
        guaranteed: The largest guaranteed ε of one run; None if a run has none.
        error: Why a run failed or stopped early, if so.
    """

    point: Point
    mean: float | None
    deviation: float | None
    seeds: int
    guaranteed: float | None
    error: str | None

    def as_dict(self, metric: str) -> dict[str, Any]:
        number = {metric: self.mean, f"{metric}_deviation": self.deviation}
        return {**self.point, **number, "seeds": self.seeds, "epsilon": self.guaranteed, "error": self.error}


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep. `print` shows the table and the statements.

    Attributes:
        rows: One row per setting, the best first.
        metric: The metric by which settings are judged.
        reported: Mean and deviation of the best setting on the records on which it is reported.
        trivial: The metric of the trivial predictor on the judged and on the reported records.
        judge: The way of judging: "held-out", "test" or "public".
        judged: On which records the settings were judged and the best was reported, in words.
        privacy: ε of the chosen run and of all runs, and which of them is stated.
        best_table: The best config as a dict, without defaults.
        out: The folder of the results; None if nothing was written.
    """

    rows: list[SweepRow]
    metric: Metric
    reported: tuple[float | None, float | None]
    trivial: Mapping[str, float | None]
    judge: JudgeMode
    judged: str
    privacy: SweepPrivacy
    best_table: Mapping[str, Any]
    out: Path | None = None

    @property
    def best(self) -> Config:
        """The config of the best setting."""
        return Config.parse(self.best_table, "the best config")

    @property
    def best_toml(self) -> str:
        """The best config as a TOML file, with the statements as comments."""
        lines = ["Chosen by tacit sweep.", self.reported_sentence, self.judged, self.privacy.sentence()]
        return "".join(f"# {line}\n" for line in lines) + "\n" + tomli_w.dumps(dict(self.best_table))

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting, the best first: the swept values, the metric, its deviation, the seeds and ε."""
        import pandas as pd

        return pd.DataFrame([row.as_dict(self.metric.name) for row in self.rows])

    @property
    def columns(self) -> list[dict[str, str]]:
        """The table as texts: one dict per row, by column; the last is the trivial predictor."""
        shown, simulated = self.metric, " (simulated)" if self.privacy.simulated else ""
        name, epsilon = f"{shown.short_label}, judged", f"guaranteed{simulated} ε of one run"
        lines = []
        for number, row in enumerate(self.rows):
            values = {key: value_text(value) for key, value in row.point.items()}
            spent = "none" if row.guaranteed is None else rounded_up(row.guaranteed)
            metric = self.metric_text(row.mean, row.deviation) if row.mean is not None else "failed"
            rank = f"{number + 1} (best)" if number == 0 else str(number + 1)
            lines.append({"rank": rank, **values, name: metric, "seeds": str(row.seeds), epsilon: spent})
        others = dict.fromkeys(lines[0], "–")
        trivial = self.metric_text(self.trivial["judged"])
        return [*lines, {**others, "rank": "trivial predictor", name: trivial}]

    @property
    def markdown(self) -> str:
        """The results as a Markdown table."""
        lines = self.columns
        rows = [list(lines[0]), ["---"] * len(lines[0]), *(list(line.values()) for line in lines)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)

    @property
    def reported_sentence(self) -> str:
        """The best setting and its result in one sentence."""
        value, deviation = self.reported
        point = ", ".join(f"{key} = {value_text(each)}" for key, each in self.rows[0].point.items())
        trivial = self.metric_text(self.trivial["reported"])
        unit = f" {self.metric.unit}" if self.metric.unit else ""
        text = self.metric_text(value, deviation)
        return f"Best: {point}. {self.metric.short} {text}{unit} (trivial predictor {trivial}{unit})."

    def __str__(self) -> str:
        return "\n".join([self.markdown, self.reported_sentence, self.judged, self.privacy.sentence()])

    def metric_text(self, value: float | None, deviation: float | None = None) -> str:
        """A measured number of the metric, with its deviation over the seeds."""
        if value is None:
            return "–"
        scale = self.metric.scale
        return self.metric.table_text(scale * value, None if deviation is None else scale * deviation)

    def as_dict(self) -> dict[str, Any]:
        """The content of results.json, which `--json` prints."""
        best = {
            "settings": self.rows[0].point,
            "reported": self.reported[0],
            "reported_deviation": self.reported[1],
            "config": canonical_settings(self.best_table),
        }
        return {
            "metric": self.metric.name,
            "higher_is_better": self.metric.higher_is_better,
            "judge": self.judge,
            "judged": self.judged,
            "settings": [row.as_dict(self.metric.name) for row in self.rows],
            "trivial": dict(self.trivial),
            "best": best,
            "privacy": self.privacy.as_dict(),
            "out": None if self.out is None else str(self.out),
        }


def ranked_settings(
    cells: Sequence[SweepCell], results: Sequence[Result], metric: Metric
) -> list[tuple[SweepRow, list[int]]]:
    """Return each setting with the indices of its runs, the best first. Settings with a failed run are last.

    Raises:
        TacitError: No setting has a result.
    """
    groups: dict[int, list[int]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault(cell.setting, []).append(number)
    rows = [(_row(cells[runs[0]].point, [results[i] for i in runs], metric), runs) for runs in groups.values()]
    if all(row.mean is None for row, _ in rows):
        raise TacitError(f"No setting has a {metric.short}: {rows[0][0].error or 'it is not defined on these records'}")
    return sorted(rows, key=lambda each: _rank(each[0].mean, metric))


def mean_and_deviation(results: Sequence[Result], part: str, metric: Metric) -> tuple[float | None, float | None]:
    """Mean and standard deviation of a metric over seeds; None if a run lacks it, and with one run no deviation."""
    values = [result[part].get(metric.name) for result in results]
    known = [float(value) for value in values if value is not None]
    if len(known) < len(values):
        return None, None
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None


def _row(point: Point, results: Sequence[Result], metric: Metric) -> SweepRow:
    mean, deviation = mean_and_deviation(results, "judged", metric)
    spent = [result["privacy"]["guaranteed"] for result in results]
    error = next((result["error"] for result in results if result["error"]), None)
    return SweepRow(point, mean, deviation, len(results), None if None in spent else max(spent), error)


def _rank(mean: float | None, metric: Metric) -> tuple[bool, float]:
    if mean is None:
        return True, 0.0
    return False, -mean if metric.higher_is_better else mean
