"""From the parameters of an estimator to a run."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state
from torch import nn

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.graphs import Graph, from_networkx
from tacit.privacy import Relation
from tacit.runs import PYTHON_OBJECT_PREFIX, Config, Run, UserParts, batch_relation, from_config
from tacit.tasks import Dataset, Model, default_head, heads, shards

if TYPE_CHECKING:
    from tacit.estimators.base import TacitEstimator

Indices = npt.NDArray[np.int64]


class InvalidRecords(TacitError, ValueError):
    """Records or targets that an estimator does not accept; for scikit-learn, a ValueError."""


class Sites(NamedTuple):
    """The rows of X at each node, and the groups that they come from."""

    rows: list[Indices]
    groups: npt.NDArray[Any]

    @classmethod
    def of(cls, groups: npt.ArrayLike, x: npt.NDArray[np.float32]) -> Sites:
        """Return one node per distinct group, in sorted order."""
        labels = np.asarray(groups)
        if labels.ndim != 1:
            raise InvalidRecords(f"groups must have one value per row, got shape {labels.shape}")
        if len(labels) != len(x):
            raise InvalidRecords(
                f"groups must have one value per row: X has {len(x)} rows, groups {len(labels)} values"
            )
        try:
            different, node = np.unique(labels, return_inverse=True)
        except TypeError:
            raise InvalidRecords("groups must be numbers or text, the same for all rows") from None
        if different.dtype.kind == "f" and not np.isfinite(different).all():
            raise InvalidRecords("groups must not be missing or infinite")
        return cls([np.flatnonzero(node == k) for k in range(len(different))], different)


def build_run(estimator: TacitEstimator, data: Dataset, sites: Sites | None) -> Run:
    """Return the run that the parameters of an estimator describe, on these records."""
    seed = _seed(estimator.random_state)
    noise = estimator.noise or ("secret" if estimator.random_state is None else "simulated")
    nodes = estimator.nodes if sites is None else len(sites.rows)
    named = {"data": data, "algorithm": estimator.algorithm, "model": estimator.model, "graph": estimator.graph}
    sections: dict[str, dict[str, Any]] = {kind: _section(part) for kind, part in named.items()}
    sections["algorithm"] |= _hyperparameters(estimator)
    if isinstance(estimator.graph, str | Mapping):
        sections["graph"]["nodes"] = nodes
    keys = ("epsilon", "delta", "population", "population_budget")
    table: dict[str, Any] = {
        **sections,
        **{"seed": seed, "noise": noise, "rounds": estimator.rounds, "evaluate_every": estimator.rounds},
        "batch": {"size": estimator.batch, "sampling": estimator.sampling, "relation": estimator.relation},
        "privacy": {key: getattr(estimator, key) for key in keys},
    }
    table = _plain(table)
    config = Config.parse(table, type(estimator).__name__)
    config = _with_sharding(config, table, data, sites, nodes)
    parts = UserParts(
        data=data,
        sharding=None if sites is None else sites.rows,
        model=_model(estimator.model, data, config.seed),
        graph=_graph(estimator.graph),
        algorithm=estimator.algorithm if isinstance(estimator.algorithm, Algorithm) else None,
    )
    if estimator.out is None:
        return from_config(config, parts, secret_noise=True, accept_learnt=True)
    from tacit.reports import ReportPage  # slow to import, and only a run with a folder needs it

    folder, pages = Path(estimator.out), [ReportPage()]
    return from_config(config, parts, out=folder, observers=pages, secret_noise=True, accept_learnt=True)


def _with_sharding(config: Config, table: Mapping[str, Any], data: Dataset, sites: Sites | None, nodes: int) -> Config:
    """Return the config with a sharding, and with batches that are not larger than the smallest node."""
    labels, name = data.y.numpy(), PYTHON_OBJECT_PREFIX + "groups"
    if sites is not None:
        smallest = min(map(len, sites.rows))
    else:
        name = _sharding(config, batch_relation(config.batch), nodes)
        given = {"features": data.x.numpy()} if name == "digest" else {}
        rows = shards.build(name, {"labels": labels, "nodes": nodes, "seed": config.seed, **given})
        smallest = min(map(len, rows))
    batch = dict(table["batch"])
    if config.batch.size is not None and smallest:
        batch["size"] = min(config.batch.size, smallest)
    return Config.parse({**table, "sharding": {"name": name}, "batch": batch})


def _sharding(config: Config, relation: Relation, nodes: int) -> str:
    """The sharding of rows without groups: equal parts, unless one removed record would then move others."""
    return "digest" if config.noise == "secret" and relation == "add-remove" and nodes > 1 else "iid"


def _section(part: object) -> dict[str, Any]:
    """The section of a config for a name, a dict with a name and parameters, or an object."""
    if isinstance(part, Mapping):
        return dict(part)
    return {"name": part if isinstance(part, str) else f"{PYTHON_OBJECT_PREFIX}{type(part).__name__}"}


def _plain(value: Any) -> Any:
    """Return numpy scalars, which the grids of a search contain, as numbers of Python."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _hyperparameters(estimator: TacitEstimator) -> dict[str, Any]:
    """The hyperparameters of the algorithm that are set, as keys of its section."""
    direct = {key: getattr(estimator, key) for key in ("lr", "clip") if getattr(estimator, key) is not None}
    others = dict(estimator.hyperparameters or {})
    if twice := sorted(direct.keys() & others.keys()):
        raise TacitError(f"{twice[0]} is set twice: give it as {twice[0]}= or in hyperparameters, not both")
    if isinstance(estimator.algorithm, Algorithm) and (direct or others):
        raise TacitError("The algorithm is an object, which has its hyperparameters: remove lr, clip, hyperparameters")
    if "share" in others:
        raise TacitError(
            "share is not accepted: an estimator predicts with the mean model, so all parameters are shared"
        )
    return direct | others


def _seed(random_state: Any) -> int:
    """The public seed: of the initial parameters, and with simulated noise also of batches and noise."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _graph(graph: Any) -> Graph | None:
    if isinstance(graph, nx.Graph):
        return from_networkx(graph)
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, str | Mapping):
        return None
    raise TacitError(f"graph must be a name, a dict, a tacit.Graph or a networkx graph, got {type(graph).__name__}")


def _model(model: Any, data: Dataset, seed: int) -> nn.Module | Model | None:
    """The model that is not a name: a copy of a module, or what a function of `inputs` and `classes` returns."""
    if isinstance(model, str | Mapping):
        return None
    if isinstance(model, nn.Module | Model):
        return copy.deepcopy(model)
    if not callable(model):
        raise TacitError(f"model must be a name, a dict, a torch module or a function, got {type(model).__name__}")
    _check_function(model)
    head = heads.build(default_head(data.target), {"target": data.target})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = model(inputs=data.inputs, classes=head.outputs)
    if not isinstance(made, nn.Module):
        raise TacitError(f"the function given as model must return a torch module, got {type(made).__name__}")
    return made


def _check_function(model: Callable[..., Any]) -> None:
    """Raise TacitError if a function or a class cannot be called with `inputs` and `classes`."""
    try:
        inspect.signature(model).bind(inputs=(), classes=0)
    except TypeError:
        name = getattr(model, "__name__", type(model).__name__)
        if isinstance(model, type):
            raise TacitError(f"model is the class {name}: pass an instance, {name}(...)") from None
        raise TacitError(f"the function {name} given as model must accept inputs= and classes=") from None
    except ValueError:
        pass  # a built-in function without a signature
