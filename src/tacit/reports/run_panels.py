"""The chart panels of a page about one run or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tacit.reports.charts import (
    Figure,
    epsilon_over_rounds,
    metric_over_cost,
    metric_over_epsilon,
    metric_over_rounds,
)
from tacit.reports.formats import format_heading
from tacit.reports.run_record import RunRecord
from tacit.reports.sensitivity_chart import estimate_check, estimate_warning, sensitivity_chart, sensitivity_mode
from tacit.reports.utility_section import shown_metrics
from tacit.runs.metrics import Metric, all_metrics


class ChartPanel(NamedTuple):
    """A chart with its heading.

    Attributes:
        note: What the chart cannot show.
        dotted: What its dotted lines are.
        folded: Whether the page of a single run shows it in a folded section.
    """

    id: str
    heading: str
    about: str
    figure: Figure | None
    note: str = ""
    dotted: str = ""
    folded: bool = False


def run_panels(runs: Sequence[RunRecord]) -> list[ChartPanel]:
    """All panels that have something to show: the headline metrics, privacy, the other metrics."""
    unprotected = _unprotected_note(runs)
    charted = [each for each in all_metrics() if each.charted]
    panels = [_metric_panel(each, runs) for each in charted if each.headline]
    panels.append(_epsilon_panel(runs, unprotected))
    if len(runs) > 1:
        for main in shown_metrics(runs)[:1]:
            name, epsilon = format_heading(main.short), metric_over_epsilon(runs, main)
            panels.append(
                ChartPanel("tradeoff", f"{name} by ε", "against the guaranteed ε spent", epsilon, unprotected)
            )
            panels.append(ChartPanel("cost", f"{name} by cost", "against the cost clock", metric_over_cost(runs, main)))
    else:
        panels.append(_sensitivity_panel(runs[0]))
    panels += [_metric_panel(each, runs) for each in charted if not each.headline]
    return [panel for panel in panels if panel.figure or panel.note]


def _metric_panel(shown: Metric, runs: Sequence[RunRecord]) -> ChartPanel:
    figure = metric_over_rounds(runs, shown)
    about = (shown.about_site if _all_sites(runs) else "") or shown.about
    return ChartPanel(shown.name, shown.title, about, figure, folded=not shown.headline and not shown.optional)


def _epsilon_panel(runs: Sequence[RunRecord], note: str) -> ChartPanel:
    scopes = {run.privacy.claimed_for for run in runs}
    scope = ", per run or per round" if len(scopes) > 1 else ", per round" if "round" in scopes else ""
    about = "by the site" if _all_sites(runs) else "by the node that has spent most"
    return ChartPanel("epsilon", "ε spent", about, epsilon_over_rounds(runs), note, f"claimed by the paper{scope}")


def _sensitivity_panel(run: RunRecord) -> ChartPanel:
    figure = sensitivity_chart(run.trace, sensitivity_mode(run))
    warning = estimate_warning(run.trace)
    about = "L1 norm; the real one is known in simulations only"
    if not warning and (held := estimate_check(run.trace)):
        about = f"{about}. {held}"
    return ChartPanel("sensitivity", "Sensitivity by round", about, figure, warning)


def _unprotected_note(runs: Sequence[RunRecord]) -> str:
    prefix = {run.name: f"{run.name}: " if len(runs) > 1 else "" for run in runs}
    return " ".join(
        f"{prefix[run.name]}No guarantee: {run.privacy.reason}." for run in runs if run.privacy.guaranteed is None
    )


def _all_sites(runs: Sequence[RunRecord]) -> bool:
    return all(run.is_site for run in runs)
