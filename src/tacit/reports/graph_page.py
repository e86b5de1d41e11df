"""The page of learned graphs: pictures, convergence, privacy, one row per client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.graph_learning import GraphLearner
from tacit.reports.attack_chart import attack_chart
from tacit.reports.charts import LOG_AXIS, Figure, curve, line_figure
from tacit.reports.formats import NOT_SET
from tacit.reports.graph_pictures import edges_of, graph_pictures
from tacit.reports.privacy_statement import MEANING, several_runs_limitation, statement_items
from tacit.reports.release_summary import summarise_releases
from tacit.reports.template import render_template, write_page
from tacit.runs import flat_settings
from tacit.version import __version__


def write_graph_page(learner: GraphLearner, out: Path, names: Sequence[str], vertices: Sequence[str] | None) -> Path:
    """Write the page of a fitted learner to `out` (arguments as for `render_graph_page`)."""
    return write_page(out, render_graph_page(learner, names, vertices))


def render_graph_page(learner: GraphLearner, names: Sequence[str], vertices: Sequence[str] | None = None) -> str:
    """The HTML of the graphs of a fitted learner.

    Args:
        names: Names of the clients.
        vertices: Names of the vertices; by default their numbers.
    """
    run = learner.run_
    labels = list(vertices) if vertices else [str(v) for v in range(run.task.d)]
    pictures = graph_pictures(learner, names, labels)
    columns = ("change",) if run.method.noise_in_rounds else ("objective", "residual")
    charts = {column: _history_chart(run.history, column, logarithmic=column == "residual") for column in columns}
    privacy = replace(learner.privacy_, unit="signal")
    statement = statement_items(privacy, summarise_releases(run.task.ledger.releases()))
    attack = attack_chart(privacy)
    return render_template(
        "graphs.html",
        title=f"{run.method.title}: {run.task.n} graphs with {run.task.d} vertices",
        result=run.result(),
        privacy=privacy,
        warnings=[],
        meaning=dict(statement).get(MEANING, ""),
        dated=f"{datetime.now(UTC):%Y-%m-%d} · Tacit {__version__}",
        network=run.network.graph.description,
        noise_in_rounds=run.method.noise_in_rounds,
        tolerance=run.tolerance,
        pictures=pictures,
        two_colours=learner.consensus_ is not None and len(pictures) > 1,
        table=_client_rows(learner, names),
        figures={
            **{picture.id: picture.figure for picture in pictures},
            **{column: chart for column, chart in charts.items() if chart},
            **({"attack": attack} if attack else {}),
        },
        statement=statement,
        limitations=_limitations(learner),
        settings=_settings(learner),
    )


def _client_rows(learner: GraphLearner, names: Sequence[str]) -> list[dict[str, Any]]:
    graphs = [edges_of(weights) for weights in learner.graphs_]
    consensus = None if learner.consensus_ is None else edges_of(learner.consensus_)
    gamma, sizes = learner.run_.weights, learner.run_.task.sizes
    return [
        {
            "name": name,
            "signals": int(sizes[i]),
            "edges": int(edges.sum()) // 2,
            "shared": None if consensus is None else int((edges & consensus).sum()) // 2,
            "gamma": None if gamma is None else float(gamma[i]),
        }
        for i, (name, edges) in enumerate(zip(names, graphs, strict=True))
    ]


def _history_chart(history: Sequence[dict[str, Any]], column: str, logarithmic: bool) -> Figure | None:
    """A column of the history over rounds; None for a single round."""
    points = [(row["round"], row[column]) for row in history if row[column] is not None]
    if logarithmic:
        points = [(x, y) for x, y in points if y > 0]
    if len(history) < 2 or not points:
        return None
    trace = curve([x for x, _ in points], [y for _, y in points], column, 0, "round %{x}: %{y:.4g}")
    return line_figure([trace], "Round", LOG_AXIS if logarithmic else {})


def _limitations(learner: GraphLearner) -> list[str]:
    page = "This page shows the names of the clients and how many signals each has."
    if learner.method_.noise is None:
        return [page, "The graphs on this page are computed without noise: treat the page like the signals."]
    clip = "The clip bound is public. It must not be derived from the signals."
    return [
        page,
        "The guarantee is for one signal. A person with k signals has up to k times this ε, at a larger δ.",
        *([] if learner.clip is None else [clip]),
        several_runs_limitation(learner.privacy_, "signals"),
        "A client is protected by its own noise. A client that does not follow the method is not protected.",
    ]


def _settings(learner: GraphLearner) -> dict[str, str]:
    method = learner.method_
    values = {each.name: getattr(method, each.name) for each in fields(method) if each.name != "noise"}
    rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in values.items()}
    privacy = {"clip": learner.clip, "epsilon": learner.epsilon, "delta": learner.delta, "seed": learner.seed}
    flat = flat_settings({**rounded, **privacy})
    return {key: NOT_SET if value == "null" else value for key, value in flat.items()}
