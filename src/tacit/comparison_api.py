"""`tacit.compare`: several methods at the same guaranteed ε in one call, from names or from a user's own objects."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import networkx as nx
import numpy as np
import numpy.typing as npt
from torch import nn

from tacit.algorithms import algorithms
from tacit.comparisons import Comparison, Method, method_config, run_comparison
from tacit.errors import TacitError, unknown
from tacit.graphs import Graph, from_networkx
from tacit.runs import PYTHON_OBJECT_PREFIX, UserParts, batch_relation, setting_texts
from tacit.tasks import Dataset, Head, Label, Model, Target, fitting_split

if TYPE_CHECKING:
    import pandas as pd

Data: TypeAlias = str | Dataset | tuple[npt.ArrayLike, npt.ArrayLike]


def compare(
    methods: Sequence[Method] | Mapping[str, Method],
    *,
    epsilon: float,
    delta: float | None = None,
    seeds: int = 3,
    data: Data | None = None,
    labels: Sequence[Label] | None = None,
    target: Target | None = None,
    model: str | nn.Module | Model | None = None,
    task: str | Head | None = None,
    graph: str | Graph | nx.Graph | None = None,
    nodes: int | None = None,
    rounds: int | None = None,
    batch: int | Literal["all"] | None = None,
    sharding: str | Sequence[npt.NDArray[np.int64]] | None = None,
    cost: float | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: bool = False,
    **others: Any,
) -> pd.DataFrame:
    """Run several methods on one task at the same guaranteed ε, and return a table of means over seeds.

    The numbers are those of `tacit compare`. All runs are simulations, which protect nobody.

    Args:
        methods: Names of algorithms (`tacit list`), `tacit.Algorithm` objects, or config files. A dict gives each a
            label. A method without noise runs as a reference, without a guarantee.
        epsilon: The guaranteed ε of every private method. It replaces the noise that a method sets itself.
        delta: The δ of all methods; None: that of the first method's config, 1e-4 for names and objects.
        seeds: The number of runs per method.
        data, model, task, graph, nodes, rounds, batch, sharding: As in `tacit.train`; None: as in the config files, or
            in the embedded example (logistic regression on digits, ten nodes). `batch="all"` uses all records.
        labels, target: What the `y` of your own (x, y) is, as in `tacit.train`: its classes, or a `tacit.Target`.
        cost: Gives each method as many rounds as this many seconds of the cost clock allow.
        settings: Other settings of every run, such as `{"algorithm.lr": 0.1, "network.link_time": 1.0}`. Settings of
            the algorithm apply to names and config files; an `Algorithm` object keeps its own parameters.
        out: A folder for all runs, table.md, results.json and report.html. The same call resumes a comparison in it:
            finished runs with the same settings and records are not repeated. Choose another folder if you change the
            code of a model or an algorithm. By default nothing is written.
        jobs: The number of processes. With several, objects must be picklable, and a script needs
            `if __name__ == "__main__":`.
        progress: Print one line per finished run on standard error.

    Returns:
        One row per method, with its label as index. Columns: `algorithm`; `epsilon_guaranteed` (the largest over the
        seeds), `simulated`, `epsilon_claimed` and `epsilon_claimed_for` (a run or a round); `relation` and `unit`; the
        mean and standard deviation of each metric, `accuracy` and `accuracy_std`; `rounds`; the means `bytes` and
        `cost_seconds`; `seeds`. Values that are not known are NaN. `attrs["statement"]` states what the numbers are,
        `attrs["privacy"]` the guarantee of each method, and `attrs["trivial"]` the metrics of the trivial predictor.
        `tacit.tables` writes the frame as LaTeX, Markdown or CSV, and `tacit.plot_comparison` plots it.

    Raises:
        TacitError: An argument is not accepted, the methods do not have the same task, or a run fails.

    Example:
        >>> table = compare(["const-d2p", "sgp"], epsilon=2.0, delta=1e-3, seeds=1, nodes=4, rounds=3)
        >>> table.index.tolist(), bool(table.loc["const-d2p", "epsilon_guaranteed"] <= 2.0)
        (['const-d2p', 'sgp'], True)
    """
    if others:
        raise _unknown_argument(next(iter(others)))
    named = {"data": data, "model": model, "task": task, "graph": graph, "sharding": sharding}
    chosen: dict[str, Any] = {kind: _name(part) for kind, part in named.items() if part is not None}
    numbers = {"graph.nodes": nodes, "rounds": rounds, "batch.size": batch}
    chosen |= {key: value for key, value in numbers.items() if value is not None}
    texts = list(setting_texts({**chosen, **(settings or {})}))
    records = _records(data, labels, target, methods, texts)
    parts = _objects(records, model, task, graph, sharding)
    if parts.graph is not None and nodes not in (None, parts.graph.nodes):
        raise TacitError(f"the graph has {parts.graph.nodes} nodes, but nodes={nodes}: leave nodes out")
    goal: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "seeds": seeds, "cost": cost}
    given: dict[str, Any] = {**goal, "settings": texts, "parts": parts, "jobs": jobs, "progress": progress}
    if out is not None:
        return _kept(methods, Path(out), given).frame
    with TemporaryDirectory(prefix="tacit-compare-") as folder:
        frame = run_comparison(methods, out=Path(folder), **given).frame
    frame.attrs["out"] = None
    return frame


def _kept(methods: Sequence[Method] | Mapping[str, Method], out: Path, given: Mapping[str, Any]) -> Comparison:
    # Slow to import, and only pages need it.
    from tacit.reports import comparison_observers, write_comparison_page, write_if_installed

    comparison = run_comparison(methods, out=out, observers=comparison_observers, **given)
    write_if_installed(write_comparison_page, comparison)
    return comparison


def _name(part: object) -> str:
    return part if isinstance(part, str) else f"{PYTHON_OBJECT_PREFIX}{type(part).__name__}"


def _unknown_argument(key: str) -> TacitError:
    if any(key in algorithms.options(name) for name in algorithms):
        return TacitError(f'{key} is a hyperparameter: use settings={{"algorithm.{key}": ...}}')
    return unknown("argument of tacit.compare", key, list(inspect.signature(compare).parameters)[:-1])


def _records(
    data: Data | None,
    labels: Sequence[Label] | None,
    target: Target | None,
    methods: Sequence[Method] | Mapping[str, Method],
    settings: Sequence[str],
) -> Dataset | None:
    """The records that are not a name. Arrays are split as the relation of the first method needs it."""
    if data is None or isinstance(data, str | Dataset):
        if labels is not None or target is not None:
            raise TacitError(f"{'target' if labels is None else 'labels'}= is for records given as data=(x, y)")
        return data if isinstance(data, Dataset) else None
    if not isinstance(data, tuple) or len(data) != 2:
        raise TacitError(f"data must be a name, a tacit.Dataset or a pair (x, y), got {type(data).__name__}")
    if not isinstance(target, Target | None):
        raise TacitError(f"target must be a tacit.Target, got {type(target).__name__}")
    given = list(methods.values()) if isinstance(methods, Mapping) else methods
    first = given[0] if isinstance(given, Sequence) and len(given) and not isinstance(given, str) else None
    relation = "add-remove" if first is None else batch_relation(method_config(first, settings).batch)
    return Dataset.from_arrays(*data, split=fitting_split(relation), labels=labels, target=target)


def _objects(
    data: Dataset | None,
    model: str | nn.Module | Model | None,
    task: str | Head | None,
    graph: str | Graph | nx.Graph | None,
    sharding: str | Sequence[npt.NDArray[np.int64]] | None,
) -> UserParts:
    """The parts that are not names."""
    if graph is not None and not isinstance(graph, str | Graph):
        graph = from_networkx(graph)
    shards = (
        None if sharding is None or isinstance(sharding, str) else [np.asarray(each, np.int64) for each in sharding]
    )
    return UserParts(
        data=data,
        sharding=shards,
        task=None if isinstance(task, str) else task,
        model=None if isinstance(model, str) else model,
        graph=None if isinstance(graph, str) else graph,
    )
