"""The page of learned graphs: what all share in one colour, what is a client's own in another; convergence; privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from tacit.graph_learning import EDGE_THRESHOLD, GraphLearner
from tacit.privacy.ledger import Array
from tacit.reports import words
from tacit.reports.charts import Figure
from tacit.reports.page import claim, epsilon, number, size
from tacit.reports.record import Record, Released, settings
from tacit.runs import storage

_MOST_CLIENTS, _MOST_VERTICES, _MOST_EDGES = 12, 300, 6000
SHARED, OWN = "--run-6", "--run-0"


def write_graph_page(learner: GraphLearner, out: Path, names: Sequence[str], vertices: Sequence[str] | None) -> None:
    """Make the page and put it at `out`."""
    storage.write(out, graph_page(learner, names, vertices).encode())


def graph_page(learner: GraphLearner, names: Sequence[str], vertices: Sequence[str] | None = None) -> str:
    """The HTML of what a learner has learned; `names` are the clients'."""
    learning = learner.run_
    labels = list(vertices) if vertices else [str(v) for v in range(learning.task.d)]
    drawn, table = _graphs(learner, names, labels)
    columns = ("change",) if learning.method.noise_in_rounds else ("objective", "residual")
    told = learning.history if len(learning.history) > 1 else []
    charts = {column: _curve(told, column, column == "residual") for column in columns}
    figures = {**{id_: figure for id_, _, figure in drawn}, **{key: chart for key, chart in charts.items() if chart}}
    environment = Environment(
        loader=PackageLoader("tacit.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, epsilon=epsilon, claim=claim, size=size)
    return environment.get_template("graphs.html").render(
        title=f"{learning.method.title}: {learning.task.n} graphs of {learning.task.d} vertices",
        result=learning.result(),
        privacy=learner.privacy_,
        network=learning.network.graph.description,
        open=not learning.method.noise_in_rounds,
        tolerance=learning.tolerance,
        drawn=drawn,
        two=learner.consensus_ is not None and len(drawn) > 1,
        table=table,
        figures=figures,
        statement=words.statement(_record(learner)),
        not_covered=_not_covered(learner),
        settings=settings(_settings(learner)),
        plotly=get_plotlyjs(),
    )


def _graphs(
    learner: GraphLearner, names: Sequence[str], labels: Sequence[str]
) -> tuple[list[tuple[str, str, Figure]], list[dict[str, Any]]]:
    """A picture of the consensus and one a client, where they can be read, and a row a client in any case."""
    squares = [_edges(square) for square in learner.graphs_]
    both = None if learner.consensus_ is None else _edges(learner.consensus_)
    weights = learner.run_.weights
    sizes = learner.run_.task.sizes
    table = [
        {
            "name": name,
            "signals": int(sizes[i]),
            "edges": int(square.sum()) // 2,
            "shared": None if both is None else int((square & both).sum()) // 2,
            "gamma": None if weights is None else float(weights[i]),
        }
        for i, (name, square) in enumerate(zip(names, squares, strict=True))
    ]
    shown = squares[:_MOST_CLIENTS]
    if len(labels) > _MOST_VERTICES or sum(int(square.sum()) // 2 for square in shown) > _MOST_EDGES:
        return [], table
    if learner.run_.method.title == "FedAvg":
        shown = []
    places = _places(np.sum(learner.graphs_, 0), both)
    pictures = [("consensus", "Consensus" if shown else "Everyone’s graph", both, both)] if both is not None else []
    pictures += [(f"client-{i}", names[i], square, both) for i, square in enumerate(shown)]  # type: ignore[misc]
    return [(id_, name, _picture(square, both, places, labels)) for id_, name, square, both in pictures], table


def _edges(square: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    kept: np.ndarray[Any, np.dtype[np.bool_]] = square > EDGE_THRESHOLD * max(square.max(), 1e-300)
    return kept


def _places(total: Array, both: np.ndarray[Any, np.dtype[np.bool_]] | None) -> Array:
    """One layout for all pictures: heavy edges are short, and the consensus counts most."""
    pull = total / max(total.max(), 1e-300) + (0 if both is None else both)
    graph = nx.from_numpy_array(np.where(pull > 0.02, pull, 0))
    start = nx.circular_layout(graph)
    laid = nx.spring_layout(graph, pos=start, seed=0, iterations=100, k=1.6 / np.sqrt(len(total)))
    places: Array = np.array([laid[v] for v in range(len(total))])
    places -= (places.max(0) + places.min(0)) / 2
    result: Array = places / np.maximum(np.abs(places).max(0), 1e-9)
    return result


def _picture(
    edges: np.ndarray[Any, np.dtype[np.bool_]],
    both: np.ndarray[Any, np.dtype[np.bool_]] | None,
    places: Array,
    labels: Sequence[str],
) -> Figure:
    common = edges & both if both is not None else np.zeros_like(edges)
    few = len(labels) <= 60
    nodes = {
        "type": "scatter",
        "mode": "markers",
        "x": places[:, 0].round(4).tolist(),
        "y": places[:, 1].round(4).tolist(),
        "text": [f"{label}<br>{count} edges" for label, count in zip(labels, edges.sum(1).tolist(), strict=True)],
        "marker": {"size": 9 if few else 5, "color": "--ink", "line": {"color": "--card", "width": 1}},
        "hovertemplate": "%{text}<extra></extra>",
    }
    bare: dict[str, Any] = {"visible": False, "range": [-1.08, 1.08], "fixedrange": True}
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 300,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": bare,
        "yaxis": bare,
    }
    lines = [_lines(edges & ~common, places, OWN), _lines(common, places, SHARED)]
    return {"data": [*(line for line in lines if line["x"]), nodes], "layout": layout}


def _lines(edges: np.ndarray[Any, np.dtype[np.bool_]], places: Array, colour: str) -> Figure:
    first, second = np.nonzero(np.triu(edges, 1))
    gaps = np.full((len(first), 1), np.nan)
    x, y = (np.hstack([places[first, [axis]][:, None], places[second, [axis]][:, None], gaps]) for axis in (0, 1))
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [None if np.isnan(value) else round(value, 4) for value in x.ravel().tolist()],
        "y": [None if np.isnan(value) else round(value, 4) for value in y.ravel().tolist()],
        "line": {"color": colour, "width": (2.2 if colour == SHARED else 1.1) * (1.0 if len(first) <= 200 else 0.6)},
        "hoverinfo": "skip",
    }


def _curve(history: Sequence[dict[str, Any]], column: str, logarithmic: bool = False) -> Figure | None:
    points = [(row["round"], row[column]) for row in history if row[column] is not None]
    points = [(x, y) for x, y in points if y > 0] if logarithmic else points
    if not points:
        return None
    trace = {
        "type": "scatter",
        "mode": "lines+markers" if len(points) <= 30 else "lines",
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "cliponaxis": False,
        "line": {"color": OWN, "width": 2},
        "hovertemplate": "round %{x}: %{y:.4g}<extra></extra>",
    }
    axis = {"type": "log", "exponentformat": "power", "dtick": 1} if logarithmic else {}
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 270,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": {"title": {"text": "Round"}, "rangemode": "tozero"},
        "yaxis": axis,
    }
    return {"data": [trace], "layout": layout}


def _record(learner: GraphLearner) -> Record:
    """As much of a run's record as the privacy statement asks for."""
    lines = sorted(learner.run_.task.ledger.releases(), key=lambda line: (line.purpose, line.mechanism.name))
    released = []
    for (purpose, mechanism), same in groupby(lines, key=lambda line: (line.purpose, line.mechanism.name)):
        kind = list(same)
        noise = np.concatenate([line.multipliers for line in kind])
        span = float(noise.min()), float(noise.max())
        released.append(Released(purpose, mechanism, len(kind), span, (1.0, 1.0), "none"))
    result = {"privacy": learner.privacy_}
    return Record(learner.method_.title, {}, result, learner.history_, [], {}, released, [])


def _not_covered(learner: GraphLearner) -> list[str]:
    page_ = "This page shows how many signals each client has, and who the clients are, as they are."
    if learner.method_.noise is None:
        return [page_, "The graphs on this page are made without noise: share the page as you would the signals."]
    return [
        page_,
        "A record is one signal. A person with k of them, as in a series, has up to k times this ε, at a larger δ.",
        "The clip is public: it must not have been chosen by looking at the signals.",
        "The bound is for one run. Runs on the same signals add up.",
        "A client is protected by the noise it adds itself: one that does not follow the method is not.",
    ]


def _settings(learner: GraphLearner) -> dict[str, Any]:
    method = learner.method_
    keys = [each.name for each in fields(method) if each.name != "noise"]
    values = {key: getattr(method, key) for key in keys}
    shown = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in values.items()}
    private = {"clip": learner.clip, "epsilon": learner.epsilon, "delta": learner.delta, "seed": learner.seed}
    return {**shown, **private}
