"""`tacit.train`: a run in one call, from names or from a user's own objects."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from torch import nn

from tacit.algorithms import Algorithm, algorithms
from tacit.api.arguments import EvaluationCallback, adapt_observers, check_objects, kind
from tacit.api.data import Data, Test, adapt_data, node_count
from tacit.api.hyperparameters import algorithm_section, refuse_hyperparameters, sets_noise
from tacit.api.messages import python_errors
from tacit.errors import TacitError
from tacit.graphs import Graph, from_networkx
from tacit.runs import (
    EXAMPLE_CONFIG,
    PYTHON_OBJECT_PREFIX,
    Config,
    Observer,
    Run,
    UserParts,
    batch_relation,
    from_config,
)
from tacit.tasks import Head, Label, Model, Target, fitting_split

if TYPE_CHECKING:
    import networkx as nx

Sharding = str | Sequence[npt.ArrayLike]
_DEFAULT_ALGORITHM, _DEFAULT_NODES, _DEFAULT_SHARDING = "dyn-d2p", 10, "iid"


def train(
    model: str | nn.Module | Model = "logistic",
    data: Data = "digits",
    *,
    target: str | Target | None = None,
    labels: Sequence[Label] | None = None,
    test: Test | None = None,
    task: str | Head = "auto",
    algorithm: str | Algorithm[Any] | None = None,
    graph: str | Graph | nx.Graph = "one-peer-exponential",
    nodes: int | None = None,
    rounds: int = 200,
    seed: int = 0,
    noise: Literal["simulated", "secret"] = "simulated",
    batch: int | None = 32,
    sampling: Literal["poisson", "without-replacement", "permutation"] = "poisson",
    relation: Literal["add-remove", "replace-one"] | None = None,
    sharding: Sharding | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    calibration: Literal["guaranteed", "paper"] = "guaranteed",
    budget: float | None = None,
    population: str | None = None,
    population_budget: float | None = None,
    evaluate_every: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    extend: int = 0,
    progress: bool = False,
    observers: Sequence[Observer | EvaluationCallback] = (),
    **hyperparameters: Any,
) -> Run:
    """Train a model over a graph of nodes in this process, and account for its privacy.

    By default this is a simulation, which protects nobody. With `noise="secret"` the noise is real, and the run is
    added to the records ledger, which adds up all such runs on the same records.

    Data, sharding, model, graph and algorithm are registered names (`tacit list`) or your own objects.

    Args:
        model: A name, a `torch.nn.Module`, or a `tacit.Model`.
        data: A name, a `tacit.Dataset`, (x, y) as arrays, lists or tensors, a pandas data frame with numeric features
            and a `target` column, or a map-style torch `Dataset` of items (x, y), which are read once. A list has the
            data of one node per entry, in one of these forms; there are as many nodes as entries.
        target: The column of a data frame that has the labels; or a `tacit.Target`, if the labels are not classes.
        labels: The classes of your own records, in their order. A guarantee needs them: otherwise they are learnt
            from the records, which only an algorithm without privacy accepts.
        test: Test records in one of the forms of `data`, or the share of the records to hold out; 0.2 by default.
        task: What the model learns: a name (`tacit list`), or a `tacit.Head`, which also sets parameters such as
            class weights. "auto" fits the targets of the data; one output for two classes is a logit.
        algorithm: A name, or an `Algorithm`. The default is dyn-d2p, with epsilon=3 unless you set the noise.
        graph: A name, a `tacit.Graph`, or a networkx graph.
        nodes: The number of nodes of a graph given by name; 10 by default.
        rounds: The number of rounds.
        seed: Determines initial parameters, batches and noise: the same seed gives the same run.
        noise: "simulated" derives noise and batches from the seed; "secret" from a key of the operating system. With
            `out`, the key is stored there until the run has ended, so that the run can be resumed. Keep the folder
            private until then. Without `out`, no key is stored.
        batch: The (expected) batch size per node; None uses all records of a node in every step.
        sampling: How batches are drawn.
        relation: Neighbouring data sets: one record added or removed, or one record replaced. The default is
            add-remove for Poisson sampling and replace-one otherwise.
        sharding: A name ("iid" by default), or one array of record indices per node.
        epsilon: Calibrate the noise for this ε. Without it, the algorithm's own noise parameters apply.
        delta: The δ of all guarantees.
        calibration: "guaranteed" makes `epsilon` the guaranteed ε; "paper" uses the paper's formula.
        budget: Stop before the first release that would exceed this guaranteed ε. The default is a guaranteed
            `epsilon`.
        population: With secret noise: the name of the population of these records. Declare it if they change.
        population_budget: With secret noise: refuse the run if all runs on the population would exceed this ε.
        evaluate_every: Rounds between two evaluations; by default there are about 20 evaluations.
        out: A new folder for config, ledger, history, models, checkpoint and report. By default nothing is written.
        resume: Continue the run in `out` from its last checkpoint, with the same arguments as before. Other settings
            or other records than those in the run's ledger are refused.
        extend: With `resume`, continue the run for so many more rounds, with the same noise, schedules and budget.
        progress: Show progress on standard error.
        observers: Notified of the start, every round, every evaluation and the end (`tacit.Observer`). A function is
            called with (run, row) after every evaluation.
        hyperparameters: The hyperparameters of an algorithm given by name, such as lr=0.1 and clip=1.0. They are the
            keys of [algorithm] in a config.

    Returns:
        The finished run: `models`, `history`, `utility`, `privacy`, and `stopped` if it ended early.

    Raises:
        TacitError: An argument is not accepted, or the run fails, for example because it diverges.

    Example:
        >>> run = train(algorithm="const-d2p", lr=0.5, nodes=4, rounds=5, epsilon=2.0, delta=1e-3)
        >>> run.privacy.guaranteed <= 2.0, len(run.models), run.history[-1]["round"]
        (True, 4, 5)
    """
    _check_resume(out, resume, extend)
    general = {"seed": seed, "noise": noise, "rounds": rounds, "evaluate_every": evaluate_every}
    with python_errors():
        check_objects(model, task, algorithm, graph)
        followers = adapt_observers(observers, progress)
        nodes = node_count(data, nodes, _DEFAULT_NODES)
        if epsilon is None and budget is None and algorithm is None:
            epsilon = None if sets_noise(_DEFAULT_ALGORITHM, hyperparameters) else EXAMPLE_CONFIG["privacy"]["epsilon"]
        target_epsilon = {"epsilon": epsilon, "delta": delta, "calibration": calibration, "budget": budget}
        config = Config.parse(
            {
                **general,
                "data": _name(data),
                "sharding": _name(_sharding(data, sharding)),
                "task": _name(task),
                "model": _name(model),
                "algorithm": _algorithm(algorithm, hyperparameters),
                "graph": {**_name(graph), **({"nodes": nodes} if isinstance(graph, str) else {})},
                "batch": {"size": batch, "sampling": sampling, "relation": relation},
                "privacy": {**target_epsilon, "population": population, "population_budget": population_budget},
            },
            "tacit.train",
        )
        records = adapt_data(data, target, labels, test, fitting_split(batch_relation(config.batch)))
        parts = UserParts(
            data=records.data,
            sharding=records.shards or _index_arrays(sharding),
            task=None if isinstance(task, str) else task,
            model=None if isinstance(model, str) else model,
            graph=_graph(graph, nodes if isinstance(data, list) else None),
            algorithm=algorithm if isinstance(algorithm, Algorithm) else None,
        )
        folder = None if out is None else Path(out)
        how: dict[str, Any] = {"out": folder, "resume": resume, "extend": extend, "observers": followers}
        return from_config(config, parts, **how, secret_noise=True).go()


def refuse_graph_method(config: Config) -> None:
    """Refuse a method that learns a graph where one that trains a model is needed."""
    if config.algorithm.name in algorithms:
        return
    from tacit.graph_learning import graph_methods  # slow to import

    if config.algorithm.name in graph_methods:
        raise TacitError(f"{config.algorithm.name} learns a graph, not a model: use tacit learn-graph")


def _check_resume(out: str | Path | None, resume: bool, extend: int) -> None:
    if resume and out is None:
        raise TacitError("resume=True needs out=, the folder of the run to resume")
    if extend < 0 or (extend and not resume):
        raise TacitError(f"extend must be a number of rounds to add and needs resume=True, got {extend}")


def _name(part: object) -> dict[str, str]:
    return {"name": part if isinstance(part, str) else f"{PYTHON_OBJECT_PREFIX}{type(part).__name__}"}


def _algorithm(algorithm: str | Algorithm[Any] | None, hyperparameters: dict[str, Any]) -> dict[str, Any]:
    """The section [algorithm] of the config."""
    if isinstance(algorithm, Algorithm):
        refuse_hyperparameters(algorithm, hyperparameters)
        return _name(algorithm)
    name = algorithm or _DEFAULT_ALGORITHM
    refuse_graph_method(Config.parse({"algorithm": name}))
    arguments = [each.name for each in inspect.signature(train).parameters.values() if each.kind != each.VAR_KEYWORD]
    return algorithm_section(name, hyperparameters, arguments)


def _sharding(data: object, sharding: Sharding | None) -> object:
    """What the config records as sharding: its name, or the object that determines it."""
    if not isinstance(data, list):
        return _DEFAULT_SHARDING if sharding is None else sharding
    if sharding is not None:
        raise TacitError("data has one entry per node, which are the shards: remove sharding=")
    return data


def _index_arrays(sharding: Sharding | None) -> list[npt.NDArray[np.int64]] | None:
    if sharding is None or isinstance(sharding, str):
        return None
    try:
        return [np.asarray(part, np.int64) for part in sharding]
    except (TypeError, ValueError):
        raise TacitError(
            f"sharding must be a name or one array of record indices per node, got {kind(sharding)}"
        ) from None


def _graph(graph: str | Graph | nx.Graph, nodes: int | None) -> Graph | None:
    """A graph that was given as an object. It must have one node per entry of data given per node."""
    if isinstance(graph, str):
        return None
    made = graph if isinstance(graph, Graph) else from_networkx(graph)
    if nodes is not None and made.nodes != nodes:
        raise TacitError(f"data has {nodes} entries, one per node, but the graph has {made.nodes} nodes")
    return made
