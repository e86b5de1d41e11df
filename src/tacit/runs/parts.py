"""The parts of a run: objects given by the user, or built from the names in a config."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tacit.algorithms import Algorithm, MixingOptions, algorithms
from tacit.errors import TacitError
from tacit.graphs import Dropout, Graph, graphs
from tacit.privacy import Ledger, Noise
from tacit.runs.config import Config
from tacit.runs.config_sections import (
    ALGORITHM_KEYS,
    AUTO,
    PART_SECTIONS,
    PYTHON_OBJECT_PREFIX,
    DropoutKeys,
    FeatureKeys,
    MixingKeys,
    NamedPart,
    RegularisationKeys,
    SharingKeys,
    with_part_defaults,
)
from tacit.runs.data_part import pop_keys
from tacit.runs.heads import build_head, head_of_module
from tacit.tasks import (
    Dataset,
    FeatureName,
    Head,
    Model,
    Task,
    Weighting,
    datasets,
    heads,
    models,
    shards,
)

Shards = list[npt.NDArray[np.int64]]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class UserParts:
    """Parts of a run given as objects; the config names the others."""

    data: Dataset | None = None
    sharding: Shards | None = None
    task: Head | None = None
    model: nn.Module | Model | None = None
    graph: Graph | None = None
    algorithm: Algorithm[Any] | None = None
    features: Sequence[FeatureName] | None = None


def check_names(config: Config, parts: UserParts) -> None:
    """Refuse unknown names and parameters of data, sharding and model, before data are loaded.

    Graph and algorithm are checked when they are built.
    """
    named = {kind: getattr(config, kind) for kind in PART_SECTIONS if getattr(parts, kind) is None}
    for kind, part in named.items():
        if part.name.startswith(PYTHON_OBJECT_PREFIX):
            raise TacitError(
                f"the {kind} of this run was given as a Python object: resume the run in Python with "
                "tacit.train(..., resume=True)"
            )
    _refuse_feature_objects(config, parts)
    if "data" in named:
        datasets.check(config.data.name, config.data.parameters, also=FeatureKeys.model_fields)
    if "sharding" in named:
        shards.check(config.sharding.name, config.sharding.parameters)
    if "task" in named and config.task.name != AUTO:
        heads.check(config.task.name, config.task.parameters)
    if "model" in named:
        models.check(config.model.name, config.model.parameters, also=RegularisationKeys.model_fields)
    for key in algorithms.noise_parameters(config.algorithm.name) if "algorithm" in named else ():
        if config.privacy.epsilon is not None and isinstance(config.algorithm.parameters.get(key), float | int):
            raise TacitError(
                f"privacy.epsilon and algorithm.{key} both set the noise: remove one of them "
                "(on the command line, --set privacy.epsilon= removes it)"
            )


def _refuse_feature_objects(config: Config, parts: UserParts) -> None:
    names = config.data.parameters.get("features") or ()
    if parts.features is None and any(str(name).startswith(PYTHON_OBJECT_PREFIX) for name in names):
        raise TacitError(
            "features of this run were given as Python objects: resume the run in Python with "
            "tacit.train(..., features=[...], resume=True)"
        )


def build_graph(part: NamedPart) -> Graph:
    """The graph that a config names, with drop-out if the config has any."""
    params = NamedPart.model_validate(with_part_defaults("graph", part.model_dump(), load_files=True)).parameters
    graphs.check(part.name, params, also=DropoutKeys.model_fields)
    drops = pop_keys(DropoutKeys, params, f"graph {part.name}")
    graph = graphs.build(part.name, params)
    if not drops.drop_links and not drops.drop_nodes:
        return graph
    return Dropout(graph, drops.drop_links, drops.drop_nodes, drops.drop_seed)


def build_algorithm(part: NamedPart) -> Algorithm[Any]:
    """The algorithm that a config names. The keys of sharing and mixing are those of every method that has it.

    A method that has a parameter of the same name keeps it.
    """
    own, known = {**part.parameters}, algorithms.parameters(part.name)
    common = {key: own.pop(key) for key in ALGORITHM_KEYS if key in own and key not in known}
    algorithms.check(part.name, own, also=ALGORITHM_KEYS)
    algorithm = algorithms.build(part.name, own)
    if not isinstance(algorithm, Algorithm):
        raise TacitError(f"{part.name} is not an Algorithm: derive it from tacit.Algorithm")
    mixing = pop_keys(MixingKeys, common, f"algorithm {part.name}").model_dump()
    sharing = pop_keys(SharingKeys, common, f"algorithm {part.name}").model_dump(exclude_unset=True)
    algorithm = replace(algorithm, **sharing, mixing=MixingOptions(**mixing))
    algorithm.check_options()
    if algorithm.share is not None and not algorithm.partial:
        raise TacitError(f"{algorithm.title} shares all parameters: remove algorithm.share")
    return algorithm


def build_model(config: Config, data: Dataset, algorithm: Algorithm[Any], head: Head | None = None) -> Model:
    """The model that a config names, with initial parameters drawn from the seed."""
    head = head or build_head(config.task, data)
    name, params = config.model.name, config.model.parameters
    penalty = pop_keys(RegularisationKeys, params, f"model {name}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        module = models.build(name, {"inputs": data.inputs, "classes": head.outputs, **params})
    return Model(module, head, share=algorithm.share, bounds=algorithm.bounds, weight_decay=penalty.weight_decay)


def adapt_model(
    model: nn.Module | Model, config: Config, data: Dataset, algorithm: Algorithm[Any], head: Head | None = None
) -> Model:
    """A user's model as a `Model`: a `Model` defines its loss and what it shares, a module takes them from the run."""
    if not isinstance(model, Model):
        head = head or head_of_module(model, config.task, data)
        return Model(model, head, share=algorithm.share, bounds=algorithm.bounds)
    if head is not None or config.task != NamedPart(name=AUTO):
        raise TacitError(
            "task is set, but a Model has its own loss: pass the task to Model(module, head), or give the torch module "
            "itself"
        )
    if algorithm.share is not None and model.shared == model.d:
        raise TacitError(
            "algorithm.share is set, but this Model shares all its parameters: pass share= to Model, "
            "or give the torch module itself"
        )
    if model.shared < model.d and not algorithm.partial:
        raise TacitError(
            f"{algorithm.title} shares every parameter, but this Model shares only {model.shared} of {model.d}: "
            "choose a method with partial sharing, such as partpsp or dyn-d2p"
        )
    return model


def build_shards(part: NamedPart, data: Dataset, nodes: int, seed: int) -> Shards:
    """One array of record indices per node, as a config names it."""
    given = {"labels": data.y.numpy(), "nodes": nodes, "seed": seed}
    optional = {"features": data.raw[0].numpy(), "schema": data.schema}
    given |= {key: value for key, value in optional.items() if key in shards.parameters(part.name)}
    return shards.build(part.name, {**given, **part.parameters})


def check_shards(parts: Shards, records: int, nodes: int) -> None:
    """Refuse shards that do not fit the data or the graph; the task refuses shards that overlap."""
    for number, part in enumerate(parts):
        outside = part[(part < 0) | (part >= records)]
        if len(outside):
            raise TacitError(f"shard {number} contains index {outside[0]}; valid indices are 0 to {records - 1}")
    if len(parts) != nodes:
        raise TacitError(f"got {len(parts)} shards for a graph of {nodes} nodes: give one shard per node")


def build_task(
    config: Config,
    model: Model,
    data: Dataset,
    parts: Shards,
    *,
    noise: Noise,
    ledger: Ledger | None = None,
    nodes: npt.NDArray[np.int64] | None = None,
    weights: Weighting = "equal",
    network_sizes: npt.NDArray[np.int64] | None = None,
    device: torch.device = CPU,
) -> Task:
    """The task of the nodes with these shards, with batches as in the config.

    `network_sizes` are the numbers of records of all nodes, if not all of them are here. Names of devices in the config
    are not read: `device` is where the task computes.
    """
    task = Task(
        model,
        data,
        parts,
        batch=config.batch.size,
        noise=noise,
        ledger=ledger,
        public=Noise.from_seed(config.seed),
        nodes=nodes,
        sampling=config.batch.sampling,
        relation=config.batch.relation,
        epochs=config.batch.epochs,
        weighting=weights,
        clipping=config.batch.clipping,
        augmentation=config.batch.augmentation,
        network_sizes=network_sizes,
        device=device,
        precision=config.precision,
    )
    _warn_of_large_delta(config.privacy.delta, int(task.sizes.min()))
    return task


def _warn_of_large_delta(delta: float, smallest: int) -> None:
    if delta >= 1 / smallest:
        warnings.warn(
            f"privacy.delta = {delta:g} is not below 1/{smallest}, where {smallest} is the number of records of the "
            "smallest node: publishing one record at random would satisfy this δ",
            stacklevel=4,
        )
