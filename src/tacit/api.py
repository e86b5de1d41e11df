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
from tacit.graph_learning import graph_methods
from tacit.graphs import Graph, from_networkx
from tacit.privacy import Relation
from tacit.runs import PYTHON_OBJECT_PREFIX, Config, Observer, ProgressBar, Run, UserParts, batch_relation, from_config
from tacit.tasks import Dataset, Head, Model, fitting_split


def train(
    model: str | nn.Module | Model = "logistic",
    data: str | Dataset | tuple[npt.ArrayLike, npt.ArrayLike] = "digits",
    *,
    task: str | Head = "auto",
    algorithm: str | Algorithm[Any] = "dyn-d2p",
    graph: str | Graph | nx.Graph = "one-peer-exponential",
    nodes: int = 10,
    rounds: int = 200,
    seed: int = 0,
    noise: Literal["simulated", "secret"] = "simulated",
    batch: int | None = 32,
    sampling: Literal["poisson", "without-replacement", "permutation"] = "poisson",
    relation: Literal["add-remove", "replace-one"] | None = None,
    sharding: str | Sequence[npt.NDArray[np.int64]] = "iid",
    epsilon: float | None = None,
    delta: float = 1e-5,
    calibration: Literal["guaranteed", "paper"] = "guaranteed",
    budget: float | None = None,
    population: str | None = None,
    population_budget: float | None = None,
    ranges_epsilon: float | None = None,
    evaluate_every: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    extend: int = 0,
    progress: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train a model over a graph of nodes in this process, and account for its privacy.

    By default this is a simulation, which protects nobody. With `noise="secret"` the noise is real, and the run is
    added to the records ledger, which adds up all such runs on the same records.

    Data, sharding, model, graph and algorithm are registered names (`tacit list`) or your own objects.

    Args:
        model: A name, a `torch.nn.Module`, or a `tacit.Model`.
        data: A name, a `tacit.Dataset`, or arrays (x, y), whose classes are learnt from y. A guarantee needs declared
            classes: `Dataset.from_arrays(x, y, labels=[...])`.
        task: What the model learns: a name (`tacit list`), or a `tacit.Head`, which also sets parameters such as
            class weights. "auto" fits the targets of the data; one output for two classes is a logit.
        algorithm: A name, or an `Algorithm`.
        graph: A name, a `tacit.Graph`, or a networkx graph.
        nodes: The number of nodes of a graph given by name.
        rounds: The number of rounds.
        seed: Determines initial parameters, batches and noise: the same seed gives the same run.
        noise: "simulated" derives noise and batches from the seed; "secret" from a key of the operating system. With
            `out`, the key is stored there until the run has ended, so that the run can be resumed. Keep the folder
            private until then. Without `out`, no key is stored.
        batch: The (expected) batch size per node; None uses all records of a node in every step.
        sampling: How batches are drawn.
        relation: Neighbouring data sets: one record added or removed, or one record replaced. The default is
            add-remove for Poisson sampling and replace-one otherwise.
        sharding: A name, or one array of record indices per node.
        epsilon: Calibrate the noise for this ε. Without it, the algorithm's own noise parameters apply.
        delta: The δ of all guarantees.
        calibration: "guaranteed" makes `epsilon` the guaranteed ε; "paper" uses the paper's formula.
        budget: Stop before the first release that would exceed this guaranteed ε. The default is a guaranteed
            `epsilon`.
        population: With secret noise: the name of the population of these records. Declare it if they change.
        population_budget: With secret noise: refuse the run if all runs on the population would exceed this ε.
        ranges_epsilon: With columns of range = "private": the part of `epsilon` for the release of their ranges. The
            default is a tenth of `epsilon`.
        evaluate_every: Rounds between two evaluations; by default there are about 20 evaluations.
        out: A new folder for config, ledger, history, models, checkpoint and report. By default nothing is written.
        resume: Continue the run in `out` from its last checkpoint, with the same arguments as before. Other settings
            or other records than those in the run's ledger are refused.
        extend: With `resume`, continue the run for so many more rounds, with the same noise, schedules and budget.
        progress: Show progress on standard error.
        observers: Notified of the start, every round, every evaluation and the end (`tacit.Observer`).

    Returns:
        The finished run: `models`, `history`, `utility`, `privacy`, and `stopped` if it ended early.

    Raises:
        TacitError: An argument is not accepted, or the run fails, for example because it diverges.

    Example:
        >>> run = train(algorithm="const-d2p", nodes=4, rounds=5, epsilon=2.0, delta=1e-3)
        >>> run.privacy.guaranteed <= 2.0, len(run.models), run.history[-1]["round"]
        (True, 4, 5)
    """
    general = {"seed": seed, "noise": noise, "rounds": rounds, "evaluate_every": evaluate_every}
    named = {"data": data, "sharding": sharding, "task": task, "model": model, "algorithm": algorithm}
    records = {"population": population, "population_budget": population_budget, "ranges_epsilon": ranges_epsilon}
    config = Config.parse(
        {
            **general,
            **{kind: _name(part) for kind, part in named.items()},
            "graph": {**_name(graph), **({"nodes": nodes} if isinstance(graph, str) else {})},
            "batch": {"size": batch, "sampling": sampling, "relation": relation},
            "privacy": {"epsilon": epsilon, "delta": delta, "calibration": calibration, "budget": budget, **records},
        },
        "tacit.train",
    )
    _check_resume(out, resume, extend)
    refuse_graph_method(config)
    parts = _objects(data, sharding, task, model, graph, algorithm, batch_relation(config.batch))
    folder = None if out is None else Path(out)
    followers = _followers(progress, observers)
    run = from_config(config, parts, out=folder, resume=resume, extend=extend, observers=followers, secret_noise=True)
    return run.go()


def _followers(progress: bool, observers: Sequence[Observer]) -> list[Observer]:
    from tacit.reports import ReportPage  # slow to import, and only a run needs it

    return [*([ProgressBar()] if progress else []), ReportPage(), *observers]


def refuse_graph_method(config: Config) -> None:
    """Refuse a method that learns a graph where one that trains a model is needed."""
    if config.algorithm.name in graph_methods:
        raise TacitError(f"{config.algorithm.name} learns a graph, not a model: use tacit learn-graph")


def _check_resume(out: str | Path | None, resume: bool, extend: int) -> None:
    if resume and out is None:
        raise TacitError("resume=True needs out=, the folder of the run to resume")
    if extend < 0 or (extend and not resume):
        raise TacitError(f"extend must be a number of rounds to add and needs resume=True, got {extend}")


def _name(part: object) -> dict[str, str]:
    return {"name": part if isinstance(part, str) else f"{PYTHON_OBJECT_PREFIX}{type(part).__name__}"}


def _objects(
    data: str | Dataset | tuple[npt.ArrayLike, npt.ArrayLike],
    sharding: str | Sequence[npt.NDArray[np.int64]],
    task: str | Head,
    model: str | nn.Module | Model,
    graph: str | Graph | nx.Graph,
    algorithm: str | Algorithm[Any],
    relation: Relation,
) -> UserParts:
    """The parts that are not names. Arrays are split as the relation of the run needs it."""
    if not isinstance(data, str | Dataset):
        data = Dataset.from_arrays(*data, split=fitting_split(relation))
    if not isinstance(graph, str | Graph):
        graph = from_networkx(graph)
    return UserParts(
        data=None if isinstance(data, str) else data,
        sharding=None if isinstance(sharding, str) else [np.asarray(part, np.int64) for part in sharding],
        task=None if isinstance(task, str) else task,
        model=None if isinstance(model, str) else model,
        graph=None if isinstance(graph, str) else graph,
        algorithm=None if isinstance(algorithm, str) else algorithm,
    )
