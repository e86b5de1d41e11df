"""From a config to the things it names, and from the things to a run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.algorithms import Algorithm, algorithms
from tacit.errors import TacitError
from tacit.graphs import Dropout, Graph, graphs, require
from tacit.networks import Costs, Simulated
from tacit.privacy.bounded import Sampling
from tacit.privacy.budget import Budget
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.plan import calibrated, plan
from tacit.runs import storage
from tacit.runs.config import FROM_PYTHON, Choice, Config, PrivacyTarget
from tacit.runs.run import Run
from tacit.tasks import Dataset, Model, Task, datasets, models, shards


def build_graph(choice: Choice) -> Graph:
    """The graph a config names; `drop_links`, `drop_nodes` and `drop_seed` put drop-out around it."""
    params = choice.parameters
    drops = {key: params.pop(f"drop_{key}") for key in ("links", "nodes", "seed") if f"drop_{key}" in params}
    graph = graphs.build(choice.name, params)
    return Dropout(graph, **drops) if drops else graph


def build_algorithm(choice: Choice, rounds: int) -> Algorithm[Any]:
    algorithm = algorithms.build(choice.name, choice.parameters)
    if not isinstance(algorithm, Algorithm):
        raise TacitError(f"{choice.name} is not an Algorithm: derive it from tacit.Algorithm")
    return algorithm.over(rounds)


def build_model(choice: Choice, data: Dataset, seed: int) -> Model:
    """The model with its initial parameters drawn from the seed."""
    params = choice.parameters
    share = params.pop("share", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = models.build(choice.name, {"inputs": data.inputs, "classes": data.classes, **params})
    return Model(module, share=share)


def build_shards(choice: Choice, data: Dataset, nodes: int, seed: int) -> list[np.ndarray[Any, Any]]:
    return shards.build(choice.name, {"labels": data.y.numpy(), "nodes": nodes, "seed": seed, **choice.parameters})


def with_target(
    algorithm: Algorithm[Any], sampling: Sampling, target: PrivacyTarget
) -> tuple[Algorithm[Any], Budget | None]:
    """The algorithm with the noise its target asks for, and the budget that then holds."""
    limit = target.budget
    budget = None if limit is None else Budget(limit, target.delta)
    if target.epsilon is not None:
        goal = Budget(target.epsilon, target.delta)
        if target.calibration == "guaranteed":
            scale = calibrated(algorithm, sampling, goal.epsilon, goal.delta)
            budget = budget or goal
        else:
            scale = algorithm.paper_noise(sampling, goal.epsilon, goal.delta)
        algorithm = algorithm.with_noise(scale)
    if budget is not None and not list(algorithm.releases(0, np.arange(len(sampling.rate)))):
        raise TacitError(f"{algorithm.title} does not say what it releases, so it cannot run with a privacy budget")
    return algorithm, budget


def assemble(
    model: Model,
    data: Dataset,
    parts: list[np.ndarray[Any, Any]],
    algorithm: Algorithm[Any],
    graph: Graph,
    config: Config,
    out: Path | None = None,
    resume: bool = False,
) -> Run:
    """A run of checked parts, ready to go. Its folder is made last, when nothing can be refused any more."""
    require(graph, *algorithm.needs, who=algorithm.title)
    task = Task(
        model,
        data,
        parts,
        batch=config.batch.size,
        sampling=config.batch.sampling,
        relation=config.batch.relation,
        noise=Noise.from_seed(config.seed),
    )
    _warn_of_large_delta(config.privacy.delta, int(task.sizes.min()))
    algorithm, budget = with_target(algorithm, task.sampler.sampling, config.privacy)
    if budget is not None:
        budget.accept(plan(algorithm, task.sampler.sampling, task.nodes))
    if out is not None:
        storage.make_folder(out)
    task.ledger = Ledger(None if out is None else out / "ledger.sqlite", budget=budget)
    run = Run(
        task,
        algorithm,
        Simulated(graph, Costs(**config.network.model_dump())),
        delta=config.privacy.delta,
        evaluate_every=config.evaluate_every,
        out=out,
        config=config.as_dict(),
    )
    return run.resume() if resume else run


def from_config(config: Config, out: Path | None = None, resume: bool = False) -> Run:
    """The run a config describes. Names and parameters are checked before data are loaded."""
    for choice in (config.data, config.sharding, config.model, config.graph, config.algorithm):
        if choice.name.startswith(FROM_PYTHON):
            raise TacitError(
                f'this run was given its own {choice.name.removeprefix(FROM_PYTHON)} in Python: '
                "resume it there, with tacit.train(..., resume=True)"
            )
    algorithm = build_algorithm(config.algorithm, config.rounds)
    graph = build_graph(config.graph)
    datasets.check(config.data.name, config.data.parameters)
    models.check(config.model.name, {k: v for k, v in config.model.parameters.items() if k != "share"})
    shards.check(config.sharding.name, config.sharding.parameters)
    data = datasets.build(config.data.name, config.data.parameters)
    parts = build_shards(config.sharding, data, graph.nodes, config.seed)
    return assemble(build_model(config.model, data, config.seed), data, parts, algorithm, graph, config, out, resume)


def _warn_of_large_delta(delta: float, smallest: int) -> None:
    if delta >= 1 / smallest:
        warnings.warn(
            f"δ = {delta:g} is not below 1 / {smallest}, one over the smallest node's number of records: "
            "publishing a record at random would pass as private",
            stacklevel=3,
        )
