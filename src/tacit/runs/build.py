"""From a config to the things it names, and from the things to a run."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from torch import nn

from tacit.algorithms import Algorithm, algorithms
from tacit.algorithms.algorithm import by_id
from tacit.errors import TacitError
from tacit.graphs import Dropout, Graph, graphs, require
from tacit.networks import Cluster, Coordinator, Costs, Network, RankCoordinator, Ranks, Simulated
from tacit.privacy.budget import Budget
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.planning import calibrated, plan
from tacit.registry import invalid
from tacit.runs.config import CHOICES, FROM_PYTHON, Choice, Config, Drops, Penalty, PrivacyTarget, Section, Sharing
from tacit.runs.observer import Observer
from tacit.runs.run import Run
from tacit.runs.run_folder import RunFolder
from tacit.tasks import Dataset, Model, Task, datasets, models, shards

Shards = list[npt.NDArray[np.int64]]
K = TypeVar("K", bound=Section)


@dataclass(frozen=True)
class UserParts:
    """Parts of a run given as objects; the config names the others."""

    data: Dataset | None = None
    sharding: Shards | None = None
    model: nn.Module | Model | None = None
    graph: Graph | None = None
    algorithm: Algorithm[Any] | None = None


def from_config(
    config: Config,
    parts: UserParts | None = None,
    *,
    ranks: Ranks | None = None,
    out: Path | None = None,
    resume: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Build the run that a config describes. Names and parameters are checked before data are loaded.

    Args:
        config: The config.
        parts: Objects to use in place of what the config names.
        ranks: The process group of a cluster; this process then hosts its block of the nodes.
        out: The folder to keep the run in. A run that cannot begin leaves no folder behind.
        resume: Continue the run in `out` from its last checkpoint instead of starting a new one.
        observers: Notified after the run's folder.

    Raises:
        TacitError: The config is invalid, or the run cannot be kept or resumed in `out`.
    """
    parts = parts or UserParts()
    check_names(config, parts)
    algorithm = (parts.algorithm or named_algorithm(config.algorithm)).with_rounds(config.rounds)
    graph = parts.graph or named_graph(config.graph)
    require(graph, *algorithm.needs, who=algorithm.title)
    data = parts.data or datasets.build(config.data.name, config.data.parameters)
    shards_ = parts.sharding or _shards(config.sharding, data, graph.nodes, config.seed)
    _check_shards(shards_, len(data.y), graph.nodes)
    model = named_model(config, data, algorithm) if parts.model is None else _shared(parts.model, algorithm)
    costs = Costs(**config.network.model_dump())
    network: Network = Simulated(graph, costs) if ranks is None else Cluster(graph, ranks, costs)
    coordinator = Coordinator() if ranks is None else RankCoordinator(ranks)
    folder = None if out is None else (RunFolder.open if resume else RunFolder.create)(out, coordinator)
    try:
        ledger = Ledger() if folder is None else folder.ledger
        # A rank calibrates the noise for all nodes, then hosts its own.
        task = task_of(
            config, model, data, shards_, Noise.from_seed(config.seed), ledger=ledger if ranks is None else None
        )
        algorithm, budget = with_target(algorithm, task, graph, config.privacy)
        if ranks is not None:
            task, budget = task.host(network.nodes.tolist(), ledger), budget and budget.among(network.nodes)
        ledger.budget = budget
        run = Run(
            task,
            algorithm,
            network,
            coordinator=coordinator,
            observers=observers if folder is None else [folder, *observers],
            delta=config.privacy.delta,
            evaluate_every=config.evaluate_every,
            measure=config.measure,
            config=config.as_dict(),
        )
        if folder is not None:
            folder.begin(run)
    except BaseException:
        if folder is not None:
            folder.discard()
        raise
    return run


def _check_shards(parts: Shards, records: int, nodes: int) -> None:
    if any(len(part) and not 0 <= part.min() <= part.max() < records for part in parts):
        raise TacitError(f"shards hold record numbers from 0 to {records - 1}, and here is another one")
    if len(parts) != nodes:
        raise TacitError(f"there are {len(parts)} shards for a graph of {nodes} nodes: they must be as many")
    held = np.concatenate(parts)
    if len(np.unique(held)) < len(held):
        raise TacitError("shards share records: each record belongs to one node, and counts there once")


def task_of(
    config: Config,
    model: Model,
    data: Dataset,
    parts: Shards,
    noise: Noise,
    nodes: npt.NDArray[np.int64] | None = None,
    ledger: Ledger | None = None,
) -> Task:
    """The task of the nodes that hold these parts of the data, with batches as the config has them."""
    task = Task(
        model,
        data,
        parts,
        batch=config.batch.size,
        noise=noise,
        ledger=ledger,
        public=Noise.from_seed(config.seed),
        nodes=nodes,
        **config.batch.model_dump(exclude={"size"}),
    )
    _warn_of_large_delta(config.privacy.delta, int(task.sizes.min()))
    return task


def with_target(
    algorithm: Algorithm[Any], task: Task, graph: Graph, target: PrivacyTarget
) -> tuple[Algorithm[Any], Budget | None]:
    """The algorithm with the noise that the target asks of the task's nodes, and the budget that then holds."""
    algorithm, nodes = algorithm.bind(task, graph), task.nodes
    sampling, limit = algorithm.privacy.sampling(task), target.budget
    if target.epsilon is not None:
        if target.calibration == "guaranteed":
            scale = calibrated(algorithm, sampling, target.epsilon, target.delta)
            limit = limit or target.epsilon
        else:
            scale = algorithm.privacy.paper_noise(sampling, target.epsilon, target.delta)
        algorithm = algorithm.with_noise(by_id(scale, nodes))
    # Planned even without a budget: this raises if a schedule lacks a value.
    planned = list(algorithm.privacy.releases(0, nodes, sampling))
    if limit is None:
        return algorithm, None
    if not planned:
        raise TacitError(f"{algorithm.title} does not say what it releases, so it cannot run with a privacy budget")
    lines = plan(algorithm.privacy, algorithm.rounds, sampling, nodes)
    if any(line.mechanism.name == "unproven" for line in lines):
        raise TacitError(
            f"{algorithm.title} scales its noise to a sensitivity that is not proven for all it covers, which no "
            "budget allows: leave out privacy.budget, or choose another mode"
        )
    if any(line.mechanism.name == "exact" for line in lines):
        raise TacitError(
            f"{algorithm.title} sends values without noise, which no budget allows: "
            "leave out privacy.budget, or choose a private method"
        )
    budget = Budget(limit, target.delta)
    budget.accept(lines)
    return algorithm, budget


def check_names(config: Config, parts: UserParts) -> None:
    """Refuse names and parameters that are not known, of the parts that the user has not made."""
    choices = {kind: getattr(config, kind) for kind in CHOICES if getattr(parts, kind) is None}
    for kind, choice in choices.items():
        if choice.name.startswith(FROM_PYTHON):
            raise TacitError(
                f"the {kind} of this run was handed over in Python: resume it there, with tacit.train(..., resume=True)"
            )
    if "data" in choices:
        datasets.check(config.data.name, config.data.parameters)
    if "sharding" in choices:
        shards.check(config.sharding.name, config.sharding.parameters)
    if "model" in choices:
        models.check(config.model.name, config.model.parameters, also=Penalty.model_fields)
    for key in ("noise_multiplier", "noise_rate", "b", "sigma", "sigma_first"):
        if config.privacy.epsilon is not None and isinstance(config.algorithm.parameters.get(key), float | int):
            raise TacitError(
                f"privacy.epsilon and algorithm.{key} both set the noise: leave one of them out "
                "(on the command line, --set privacy.epsilon= takes it out)"
            )


def named_graph(choice: Choice) -> Graph:
    """The graph a config names, with drop-out around it where it asks for some."""
    params = choice.parameters
    graphs.check(choice.name, params, also=Drops.model_fields)
    drops = _taken(Drops, params, f"graph {choice.name}")
    graph = graphs.build(choice.name, params)
    if not drops.drop_links and not drops.drop_nodes:
        return graph
    return Dropout(graph, drops.drop_links, drops.drop_nodes, drops.drop_seed)


def _taken(keys: type[K], params: dict[str, Any], where: str) -> K:
    """The keys that a section has beside the parameters of what it names, taken out of them."""
    try:
        return keys.model_validate({key: params.pop(key) for key in keys.model_fields if key in params})
    except ValidationError as error:
        raise invalid(where, error) from None


def named_algorithm(choice: Choice) -> Algorithm[Any]:
    """The algorithm a config names. What every method with partial sharing takes need not be named by each."""
    from tacit.graph_learning import graph_methods

    if choice.name in graph_methods:
        raise TacitError(f"{choice.name} learns a graph, not a model: use tacit learn-graph")
    own, sharing = {**choice.parameters}, {}
    for key in Sharing.model_fields:
        if key in own and key not in algorithms.parameters(choice.name):
            sharing[key] = own.pop(key)
    algorithms.check(choice.name, own, also=Sharing.model_fields)
    algorithm = algorithms.build(choice.name, own)
    if not isinstance(algorithm, Algorithm):
        raise TacitError(f"{choice.name} is not an Algorithm: derive it from tacit.Algorithm")
    try:
        algorithm = replace(algorithm, **Sharing.model_validate(sharing).model_dump(exclude_unset=True))
    except ValidationError as error:
        raise invalid(f"algorithm {choice.name}", error) from None
    if algorithm.share is not None and not algorithm.partial:
        raise TacitError(f"{algorithm.title} shares all parameters: leave out share")
    return algorithm


def named_model(config: Config, data: Dataset, algorithm: Algorithm[Any]) -> Model:
    """The model a config names, with its initial parameters drawn from the seed."""
    name, params = config.model.name, config.model.parameters
    penalty = _taken(Penalty, params, f"model {name}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        module = models.build(name, {"inputs": data.inputs, "classes": data.classes, **params})
    return Model(module, share=algorithm.share, bounds=algorithm.bounds, weight_decay=penalty.weight_decay)


def _shared(model: nn.Module | Model, algorithm: Algorithm[Any]) -> Model:
    """A `Model` says itself what it shares; of a module, the algorithm says it."""
    if isinstance(model, Model) and algorithm.share is not None and model.shared == model.d:
        raise TacitError("this Model shares all its parameters: give share to it, or hand over the bare module")
    if isinstance(model, Model) and model.shared < model.d and not algorithm.partial:
        raise TacitError(
            f"{algorithm.title} shares every parameter, and of this model only {model.shared} of {model.d} are shared: "
            "choose a method that can leave some at their node, such as partpsp or dyn-d2p"
        )
    return model if isinstance(model, Model) else Model(model, share=algorithm.share, bounds=algorithm.bounds)


def _shards(choice: Choice, data: Dataset, nodes: int, seed: int) -> Shards:
    params = {"labels": data.y.numpy(), "nodes": nodes, "seed": seed, **choice.parameters}
    return shards.build(choice.name, params)


def _warn_of_large_delta(delta: float, smallest: int) -> None:
    if delta >= 1 / smallest:
        warnings.warn(
            f"δ = {delta:g} is not below 1 / {smallest}, one over the smallest node's number of records: "
            "publishing a record at random would pass as private",
            stacklevel=4,
        )
