"""From the records of runs to one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from tacit.privacy.statement import rounded_up
from tacit.reports import audits, charts, pairs, sensitivity, words
from tacit.reports.record import Record, Row, records, settings
from tacit.runs import storage
from tacit.runs.metrics import Metric, all_metrics

PAGE = "report.html"
_ALL_NODES, _WORST_NODES = 200, 50


class Panel(NamedTuple):
    """A chart with its heading and what it measures; `note` says in words what the chart cannot show."""

    id: str
    heading: str
    about: str
    figure: charts.Figure | None
    note: str = ""
    dotted: str = ""  # what a dotted line is, beside a solid one for what is guaranteed


def write_page(folders: Sequence[Path], out: Path) -> Path:
    """Make the page of the runs in `folders` and put it at `out`."""
    storage.write(out, page(records(folders)).encode())
    return out


def page(runs: Sequence[Record]) -> str:
    """The HTML of one run, or of several laid over each other."""
    panels = _panels(runs)
    figures = {panel.id: panel.figure for panel in panels if panel.figure}
    if len(runs) == 1:
        run = runs[0]
        alone = {"network": charts.network(run), "pairs": pairs.chart(run), "tried": audits.chart(run.findings.trials)}
        figures |= {name: figure for name, figure in alone.items() if figure is not None}
    environment = Environment(
        loader=PackageLoader("tacit.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, epsilon=epsilon, claim=claim, share=share, size=size)
    return environment.get_template("report.html").render(
        runs=runs,
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared",
        panels=panels,
        figures=figures,
        colours=[charts.colour(i) for i in range(len(runs))],
        statements=[words.statement(run) for run in runs],
        not_covered=[words.not_covered(run) for run in runs],
        attacks=audits.attacks(runs[0]) if len(runs) == 1 else [],
        nodes=node_table(runs[0].nodes),
        summary=node_summary(runs[0].nodes),
        settings=common(runs),
        differences=differences(runs),
        plotly=get_plotlyjs(),
    )


def node_table(rows: Sequence[Row]) -> list[Row]:
    """All nodes, or, of many, those with the highest guaranteed ε and then the lowest accuracy."""
    if len(rows) <= _ALL_NODES:
        return list(rows)
    return sorted(rows, key=lambda row: (-_or(row["guaranteed"], 1e300), _or(row["accuracy"], 0.0)))[:_WORST_NODES]


def node_summary(rows: Sequence[Row]) -> dict[str, tuple[float, float, float] | None]:
    """Least, median and greatest of each column; None where it holds no numbers."""
    columns = {key: [row[key] for row in rows if row[key] is not None] for key in (rows[0] if rows else {})}
    return {
        key: (min(values), statistics.median(values), max(values)) if values else None
        for key, values in columns.items()
    }


def common(runs: Sequence[Record]) -> dict[str, str]:
    """Settings that all runs have alike."""
    every = [settings(run.config) for run in runs]
    return {key: value for key, value in every[0].items() if all(other.get(key) == value for other in every)}


def differences(runs: Sequence[Record]) -> dict[str, list[str]]:
    """Settings in which the runs differ, a value a run."""
    every = [settings(run.config) for run in runs]
    keys = dict.fromkeys(key for each in every for key in each)
    return {key: [each.get(key, "–") for each in every] for key in keys if len({each.get(key) for each in every}) > 1}


def number(value: float | None, style: str = ".3g") -> str:
    return "none" if value is None else format(value, style)


def epsilon(value: float | None) -> str:
    """A guaranteed ε to three digits, never below itself."""
    return "none" if value is None else rounded_up(value, 3)


def claim(value: float | None) -> str:
    """
    >>> claim(1.0), claim(100.0), claim(500_000.0), claim(None)
    ('1.00', '100', '500,000', 'none')
    """
    return number(value, "#.3g" if value is None or value < 100 else ",.0f")


def share(value: float | None) -> str:
    return number(value, ".1%")


def size(value: float) -> str:
    """Bytes as people say them.

    >>> size(0), size(52_080), size(5_208_000)
    ('0 B', '52.1 kB', '5.21 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"


def _panels(runs: Sequence[Record]) -> list[Panel]:
    several = len(runs) > 1
    none = [run for run in runs if run.privacy.guaranteed is None]
    without = " ".join(
        f"{f'{run.name}: n' if several else 'N'}o privacy is guaranteed: {run.privacy.reason}." for run in none
    )
    alone = all(run.alone for run in runs)
    spent = Panel(
        "epsilon",
        "ε spent",
        "by the site" if alone else "by the node that has spent most",
        charts.epsilon_over_rounds(runs),
        without,
        f"claimed by the paper’s formula{_scope(runs)}",
    )
    charted = [each for each in all_metrics() if each.charted]
    panels = [_metric_panel(each, runs, alone) for each in charted if each.headline]
    panels += [spent, *(_metric_panel(each, runs, alone) for each in charted if not each.headline)]
    if several:
        tradeoff = charts.accuracy_over_epsilon(runs)
        panels.insert(3, Panel("tradeoff", "Accuracy for the ε spent", "against guaranteed ε", tradeoff, without))
        panels.insert(4, Panel("cost", "Accuracy by cost", "against the cost clock", charts.accuracy_over_cost(runs)))
    else:
        panels.insert(3, _sensitivity(runs[0]))
    return [panel for panel in panels if panel.figure or panel.note]


def _metric_panel(metric: Metric, runs: Sequence[Record], alone: bool) -> Panel:
    figure = charts.over_rounds(runs, metric)
    about = (metric.about_site if alone else "") or metric.about
    note = "none: the model does not classify" if metric.name == "accuracy" and figure is None else ""
    return Panel(metric.name, metric.title, about, figure, note)


def _sensitivity(run: Record) -> Panel:
    """What only a simulation can draw: the distance between the nodes furthest apart, and what was said of it."""
    drawn, broken = sensitivity.chart(run.trace, sensitivity.used(run)), sensitivity.warning(run.trace)
    held = "" if broken else f". {sensitivity.violated(run.trace)}"
    about = f"in L1, as one who sees all nodes measures it{held}"
    return Panel("sensitivity", "Sensitivity by round", about, drawn, broken)


def _scope(runs: Sequence[Record]) -> str:
    """What a claim is for: the run, unless a paper says something of single rounds only."""
    scopes = {run.privacy.claimed_for for run in runs}
    return "" if scopes == {"run"} else ", for each round" if scopes == {"round"} else ", for the run or for each round"


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
