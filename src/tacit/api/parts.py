"""The parts of a run as `tacit.train` gets them: their sections of the config, and those that are objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from torch import nn

from tacit.algorithms import Algorithm, algorithms
from tacit.api.arguments import check_objects, kind
from tacit.api.data import Data, UserData
from tacit.api.features import GivenFeatures
from tacit.api.hyperparameters import algorithm_section, refuse_hyperparameters, sets_noise
from tacit.errors import TacitError
from tacit.graphs import Graph, from_networkx
from tacit.runs import AUTO, EXAMPLE_CONFIG, PYTHON_OBJECT_PREFIX, Config, UserParts
from tacit.tasks import Head, Model

if TYPE_CHECKING:
    import networkx as nx

Sharding = str | Sequence[npt.ArrayLike]
_DEFAULT_ALGORITHM, _DEFAULT_NODES, _DEFAULT_SHARDING = "dyn-d2p", 10, "iid"


@dataclass(frozen=True, eq=False)
class GivenParts:
    """The parts of a run: names or objects. None is the default. They are checked when this is created."""

    model: str | nn.Module | Model
    data: Data
    task: str | Head
    algorithm: str | Algorithm[Any] | None
    graph: str | Graph | nx.Graph
    nodes: int | None
    sharding: Sharding | None
    features: GivenFeatures

    def __post_init__(self) -> None:
        check_objects(self.model, self.task, self.algorithm, self.graph)
        if not isinstance(self.data, list):
            return
        if self.nodes not in (None, len(self.data)):
            raise TacitError(
                f"data has {len(self.data)} entries, one per node, but nodes={self.nodes}: leave nodes out"
            )
        if self.sharding is not None:
            raise TacitError("data has one entry per node, which are the shards: remove sharding=")

    def default_epsilon(self, hyperparameters: Collection[str]) -> float | None:
        """The ε of the embedded example for the default algorithm; None if the noise is set in another way."""
        if self.algorithm is not None or sets_noise(_DEFAULT_ALGORITHM, hyperparameters):
            return None
        return float(EXAMPLE_CONFIG["privacy"]["epsilon"])

    def sections(self, hyperparameters: Mapping[str, Any], arguments: Collection[str]) -> dict[str, dict[str, Any]]:
        """The sections of the config. `arguments` are those of `tacit.train`, for suggestions."""
        nodes = _DEFAULT_NODES if self.nodes is None else self.nodes
        sharding: object = _DEFAULT_SHARDING if self.sharding is None else self.sharding
        if isinstance(self.data, list):
            nodes, sharding = len(self.data), self.data
        return {
            "data": {**_name(self.data), **self.features.keys},
            "sharding": _name(sharding),
            "task": _name(self.task),
            "model": _name(self.model),
            "algorithm": self._algorithm(hyperparameters, arguments),
            "graph": {**_name(self.graph), **({"nodes": nodes} if isinstance(self.graph, str) else {})},
        }

    def _algorithm(self, hyperparameters: Mapping[str, Any], arguments: Collection[str]) -> dict[str, Any]:
        if isinstance(self.algorithm, Algorithm):
            refuse_hyperparameters(self.algorithm, hyperparameters)
            return _name(self.algorithm)
        name = self.algorithm or _DEFAULT_ALGORITHM
        refuse_graph_method(Config.parse({"algorithm": name}))
        return algorithm_section(name, hyperparameters, arguments)

    def objects(self, records: UserData) -> UserParts:
        """The parts that are objects, with the records of the data."""
        return UserParts(
            data=records.data,
            sharding=_index_arrays(self.sharding) if records.shards is None else records.shards,
            task=None if isinstance(self.task, str) else self.task,
            model=None if isinstance(self.model, str) else self.model,
            graph=self._graph(),
            algorithm=self.algorithm if isinstance(self.algorithm, Algorithm) else None,
            features=self.features.objects(records.data),
        )

    def _graph(self) -> Graph | None:
        if isinstance(self.graph, str):
            return None
        made = self.graph if isinstance(self.graph, Graph) else from_networkx(self.graph)
        if isinstance(self.data, list) and made.nodes != len(self.data):
            raise TacitError(f"data has {len(self.data)} entries, one per node, but the graph has {made.nodes} nodes")
        if self.nodes not in (None, made.nodes):
            raise TacitError(f"the graph has {made.nodes} nodes, but nodes={self.nodes}: leave nodes out")
        return made


def set_values(algorithm: object, section: type[BaseModel], **values: Any) -> dict[str, Any]:
    """Return the values of a section. For a recipe, which sets the others, only those that are not the defaults."""
    if not isinstance(algorithm, str) or algorithm != AUTO:
        return values
    return {key: value for key, value in values.items() if value != section.model_fields[key].default}


def refuse_graph_method(config: Config) -> None:
    """Refuse a method that learns a graph where one that trains a model is needed."""
    if config.algorithm.name in algorithms:
        return
    from tacit.graph_learning import graph_methods  # slow to import

    if config.algorithm.name in graph_methods:
        raise TacitError(f"{config.algorithm.name} learns a graph, not a model: use tacit learn-graph")


def _name(part: object) -> dict[str, str]:
    return {"name": part if isinstance(part, str) else f"{PYTHON_OBJECT_PREFIX}{type(part).__name__}"}


def _index_arrays(sharding: Sharding | None) -> list[npt.NDArray[np.int64]] | None:
    if sharding is None or isinstance(sharding, str):
        return None
    try:
        return [np.asarray(part, np.int64) for part in sharding]
    except (TypeError, ValueError):
        raise TacitError(
            f"sharding must be a name or one array of record indices per node, got {kind(sharding)}"
        ) from None
