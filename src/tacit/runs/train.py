"""`tacit.train`: a run in one call, from names or from a user's own objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import numpy as np
import numpy.typing as npt
from torch import nn

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.graphs import Graph, from_networkx
from tacit.runs import build
from tacit.runs.config import FROM_PYTHON, Choice, Config
from tacit.runs.progress import ProgressBar
from tacit.runs.run import Run
from tacit.tasks import Dataset, Model, datasets


def train(
    model: str | nn.Module | Model = "logistic",
    data: str | Dataset | tuple[npt.ArrayLike, npt.ArrayLike] = "digits",
    *,
    algorithm: str | Algorithm[Any] = "dyn-d2p",
    graph: str | Graph | nx.Graph = "one-peer-exponential",
    nodes: int = 10,
    rounds: int = 200,
    seed: int = 0,
    batch: int | None = 32,
    sampling: Literal["poisson", "without-replacement", "permutation"] = "poisson",
    relation: Literal["add-remove", "replace-one"] | None = None,
    sharding: str | Sequence[npt.NDArray[np.int64]] = "iid",
    epsilon: float | None = None,
    delta: float = 1e-5,
    calibration: Literal["guaranteed", "paper"] = "guaranteed",
    budget: float | None = None,
    evaluate_every: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Run:
    """Train a model over a graph of nodes, and say what it cost.

    Every part is a registered name or an object of your own: a `torch.nn.Module`, arrays (x, y), an `Algorithm`
    from your own file, any networkx graph, a list of index arrays as shards. `nodes` counts for a graph given by
    name. With `epsilon` the noise is calibrated so that the *guarantee* is that ε; `budget` stops a run that would pass it.

    >>> run = train(algorithm="const-d2p", nodes=4, rounds=5, epsilon=2.0, delta=1e-3)
    >>> run.privacy.guaranteed <= 2.0, len(run.models), run.history[-1]["round"]
    (True, 4, 5)
    """
    config = Config.parse(
        {
            "seed": seed,
            "rounds": rounds,
            "evaluate_every": evaluate_every,
            "data": _named(data),
            "sharding": _named(sharding),
            "model": _named(model),
            "graph": {**_named(graph), **({"nodes": nodes} if isinstance(graph, str) else {})},
            "algorithm": _named(algorithm),
            "batch": {"size": batch, "sampling": sampling, "relation": relation},
            "privacy": {"epsilon": epsilon, "delta": delta, "calibration": calibration, "budget": budget},
        },
        "tacit.train",
    )
    the_algorithm = build.build_algorithm(config.algorithm, rounds) if isinstance(algorithm, str) else algorithm.over(rounds)
    the_graph = _graph(graph, config.graph)
    the_data = _data(data)
    the_model = _model(model, config.model, the_data, seed)
    parts = (
        build.build_shards(config.sharding, the_data, the_graph.nodes, seed) if isinstance(sharding, str) else list(sharding)
    )
    if len(parts) != the_graph.nodes:
        raise TacitError(f"there are {len(parts)} shards for a graph of {the_graph.nodes} nodes: they must be as many")
    folder = None if out is None else Path(out)
    run = build.assemble(the_model, the_data, parts, the_algorithm, the_graph, config, folder, resume)
    if not progress:
        return run.go()
    with ProgressBar(run) as bar:
        return run.go(bar.update)


def _named(part: object) -> dict[str, Any]:
    return {"name": part if isinstance(part, str) else f"{FROM_PYTHON}{type(part).__name__}"}


def _graph(graph: str | Graph | nx.Graph, choice: Choice) -> Graph:
    if isinstance(graph, str):
        return build.build_graph(choice)
    return graph if isinstance(graph, Graph) else from_networkx(graph)


def _data(data: str | Dataset | tuple[npt.ArrayLike, npt.ArrayLike]) -> Dataset:
    if isinstance(data, str):
        return datasets.build(data)
    return data if isinstance(data, Dataset) else Dataset.from_arrays(*data)


def _model(model: str | nn.Module | Model, choice: Choice, data: Dataset, seed: int) -> Model:
    if isinstance(model, str):
        return build.build_model(choice, data, seed)
    return model if isinstance(model, Model) else Model(model)
