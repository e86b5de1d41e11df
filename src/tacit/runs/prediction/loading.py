"""Creates the trained model of a run, in memory or from its folder. No code in or named by a folder is executed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.privacy import read_ledger
from tacit.runs import storage
from tacit.runs.prediction.description import ModelDescription, describe
from tacit.runs.prediction.model_file import ModelFile
from tacit.runs.prediction.trained_model import TrainedModel
from tacit.runs.recorded_facts import RecordedFacts
from tacit.tasks import FeatureMap, FeatureName, Head, Model, TableSchema, heads, models, record_preparation

if TYPE_CHECKING:
    from tacit.runs.run import Run

_BUILD_ERRORS = (RuntimeError, TypeError, ValueError, OverflowError, MemoryError)


def trained_in_memory(run: Run, node: int | None) -> TrainedModel:
    """Return the model of a node of a run at this moment; None: the mean, or the own model of a site."""
    params, hosted = _parameters(run, node), None if node is None else int(node)
    module = run.task.model.trained_module(params)
    if module is None:
        raise TacitError("this model was created from a loss function, so it has parameters but no module")
    own = hosted if run.has_all_nodes else int(run.task.nodes[0])
    schema = run.task.data.schema
    description = describe(run, node=own, complete=True)
    features = None if (applied := run.task.data.features) is None else applied.map
    preparation = copy.deepcopy(record_preparation(run.task))
    return TrainedModel(module, run.task.head, schema, description, run.task.model.forward, features, preparation)


def trained_in_folder(
    folder: Path,
    node: int | None,
    given: nn.Module | Model | str | None,
    own_features: Sequence[FeatureName] | None = None,
) -> TrainedModel:
    """Return the model of a finished run.

    Args:
        folder: The folder of the run.
        node: The node; None: the mean, or the own model of a site.
        given: The module of a run whose model is not a registered one, a `Model` of it if the run was trained with
            `forward`, or the file and name of it ("mine.py:Net"). Only a file that is given here is executed.
        own_features: The features of the run that are not part of Tacit, in the same forms.

    Raises:
        TacitError: The folder has no such model, or the module cannot be created.
    """
    file = ModelFile.read(folder / storage.MODEL_FILE)
    description = file.description
    own = node is None or node == description.node
    if own and not description.complete:
        raise _incomplete()
    module = _module(description, given)
    dtypes = [value.dtype for value in file.state.values() if value.is_floating_point()]
    module = module.to(dtypes[0]) if dtypes else module
    params = None if own or node is None else _row(folder, node)
    module = file.load_into(module, params)
    described = description if own else node_description(description, node)
    forward = given.forward if isinstance(given, Model) else None
    features = _features(file, own_features)
    schema = _schema(description, folder)
    return TrainedModel(module, _head(description), schema, described, forward, features, file.preparation)


def _features(file: ModelFile, given: Sequence[FeatureName] | None) -> FeatureMap | None:
    described = file.description.features
    if described is not None:
        return described.restore(file.features, given)
    if given:
        raise TacitError("this run has no features: remove features= (--features)")
    return None


def node_description(description: ModelDescription, node: int | None) -> ModelDescription:
    """Return the description of a node's model, from that of the mean model."""
    return description.model_copy(update={"node": node, "complete": True})


def _parameters(run: Run, node: int | None) -> Tensor:
    hosted = run.task.nodes.tolist()
    if node is not None:
        if node not in hosted:
            raise TacitError(f"there is no node {node} here: the nodes are {hosted[0]} to {hosted[-1]}")
        return run.models[hosted.index(node)]
    params = run.mean_parameters()
    if params is None:
        raise TacitError("the models contain values that are not finite, so they have no mean: the run has diverged")
    if len(params) < run.task.d:
        raise _incomplete()
    return params


def _incomplete() -> TacitError:
    return TacitError(
        "the nodes of this run share only some of the parameters, so there is no complete mean model: "
        "choose the model of one node, with node=K (--node K)"
    )


def _module(description: ModelDescription, given: nn.Module | Model | str | None) -> nn.Module:
    if isinstance(given, Model):
        given = given.trained_module(given.initial())
        if given is None:
            raise TacitError("the given Model was created from a loss function, so it has no module")
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    architecture = description.architecture
    if architecture.module is None:
        raise TacitError("the model of this run was created from a loss function, so it has no module")
    name = architecture.name if given is None else given
    if given is None and (name is None or name not in models):
        raise TacitError(
            f"the module {architecture.name or architecture.module!r} of this run is not part of Tacit: pass it with "
            "tacit.load(..., model=MODULE), or name its file: --model FILE.py:NAME"
        )
    params = {"inputs": tuple(architecture.inputs), "classes": architecture.outputs, **architecture.parameters}
    try:
        with torch.random.fork_rng(devices=[]):
            return models.build(str(name), params)
    except _BUILD_ERRORS as error:
        raise TacitError(f"the model {name} cannot be created: {' '.join(str(error).split())}") from None


def _head(description: ModelDescription) -> Head | None:
    described = description.head
    if described is None or described.name is None:
        return None
    heads.registered(described.name)  # `build` alone would also load a user's file
    return heads.build(described.name, {"target": description.target.target(), **described.parameters})


def _schema(description: ModelDescription, folder: Path) -> TableSchema | None:
    if description.table is None:
        return None
    try:
        return TableSchema.from_dict(description.table)
    except (KeyError, TypeError, AttributeError) as error:
        raise TacitError(f"{folder / storage.MODEL_FILE} is damaged: {error} is wrong in its table") from None


def _row(folder: Path, node: int) -> Tensor:
    """Return the model of a node (d,), from the file of the process that hosted it."""
    blocks = list(_blocks(folder))
    for first, count, path in blocks:
        if first <= node < first + count:
            return _read_row(path, node - first)
    found = ", ".join(f"{first} to {first + count - 1}" for first, count, _ in blocks) or "none"
    raise TacitError(f"{folder} has no model of node {node}; it has the nodes {found}")


def _blocks(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """The first node, the number of nodes and the models of each process of a run."""
    for path in storage.ledger_files(folder):
        first, count = RecordedFacts.read(read_ledger(path), str(path)).nodes
        yield first, count, path.with_name(storage.MODELS_FILE)


def _read_row(path: Path, row: int) -> Tensor:
    try:
        with safe_open(path, "pt") as file:
            found: Tensor = file.get_slice("models")[row : row + 1]
    except (SafetensorError, OSError, ValueError) as error:
        raise TacitError(f"{path} cannot be read as the models of a run: {error}") from None
    if found.dim() != 2 or not len(found):
        raise TacitError(f"{path} has no model in row {row}")
    return found[0]
