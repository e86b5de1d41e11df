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
from tacit.runs.build import UserParts, from_config
from tacit.runs.config import FROM_PYTHON, Config
from tacit.runs.progress import ProgressBar
from tacit.runs.run import Run
from tacit.tasks import Dataset, Model


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

    Every part is a registered name or an object of your own: a `torch.nn.Module`, arrays (x, y), an
    `Algorithm` from your own file, any networkx graph, a list of index arrays as shards. `nodes` counts for a
    graph given by name. With `epsilon` the noise is calibrated so that the *guarantee* is that ε; `budget`
    stops a run that would pass it. With `out` all is kept in that folder, and `resume` goes on from there.

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
    if resume and out is None:
        raise TacitError("resume=True needs out, the folder of the run to go on with")
    parts = UserParts(
        data=None if isinstance(data, str) else _dataset(data),
        sharding=None if isinstance(sharding, str) else [np.asarray(part, np.int64) for part in sharding],
        model=None if isinstance(model, str) else model,
        graph=None if isinstance(graph, str) else _graph(graph),
        algorithm=None if isinstance(algorithm, str) else algorithm,
    )
    from tacit.reports import ReportPage

    observers = [*([ProgressBar()] if progress else []), ReportPage()]
    folder = None if out is None else Path(out)
    return from_config(config, parts, out=folder, resume=resume, observers=observers).go()


def _named(part: object) -> dict[str, Any]:
    return {"name": part if isinstance(part, str) else f"{FROM_PYTHON}{type(part).__name__}"}


def _dataset(data: Dataset | tuple[npt.ArrayLike, npt.ArrayLike]) -> Dataset:
    return data if isinstance(data, Dataset) else Dataset.from_arrays(*data)


def _graph(graph: Graph | nx.Graph) -> Graph:
    return graph if isinstance(graph, Graph) else from_networkx(graph)
