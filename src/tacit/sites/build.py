"""From a site's files to the pieces of its part in the run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.graph_learning import GraphMethod, Signals
from tacit.graphs import Graph, require
from tacit.privacy.budget import Budget
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.planning import plan
from tacit.runs.build import UserParts, check_names, named_algorithm, named_graph, named_model, task_of, with_target
from tacit.runs.config import Config
from tacit.sites.description import NetworkDescription
from tacit.sites.private_state import open_private_state
from tacit.sites.signals import graph_method, is_graph_learning, signal_clip, signals
from tacit.sites.site_config import SiteConfig
from tacit.tasks import Dataset, Task, datasets


@dataclass(frozen=True)
class SiteParts:
    """A site's part in the run: one node, its records or signals, and what all sites agreed on.

    `config` is the run's as a simulation has it, with this site's data. Noise is calibrated for the site's own sampling
    rate, since nobody knows that of others; ledger and budget are those of its task.
    """

    site: SiteConfig
    node: int
    config: Config
    description: NetworkDescription
    graph: Graph
    algorithm: Algorithm[Any] | GraphMethod[Any]
    task: Task | Signals

    @property
    def delta(self) -> float:
        return self.config.privacy.delta

    @property
    def noise(self) -> Noise:
        return self.task.noise

    @property
    def ledger(self) -> Ledger:
        return self.task.ledger


def build_site(site: SiteConfig) -> SiteParts:
    """The pieces of a site's run. Its state folder is made, and a key for its noise, if they are not there.

    Everything that can be wrong is found here, before anything has left.
    """
    config = site.network_config.config(data=site.data)
    return _graph_learner(site, config) if is_graph_learning(config.algorithm) else _trainer(site, config)


def _trainer(site: SiteConfig, config: Config) -> SiteParts:
    check_names(config, UserParts())
    algorithm = named_algorithm(config.algorithm).with_rounds(config.rounds)
    graph = named_graph(config.graph)
    require(graph, *algorithm.needs, who=algorithm.title)
    data, names, order = _records(site), site.network_config.names, site.network_config.data.label_order
    model = named_model(config, data, algorithm)
    form = (data.inputs, data.classes)
    description = NetworkDescription.of(config, names, graph, model, *form, labels=order, name=site.network_config.name)
    ledger, noise = open_private_state(site.state, _run(description, data.x.numpy(), data.y.numpy()), site.noise_seed)
    task = task_of(config, model, data, [np.arange(len(data.y))], noise, np.array([site.node]), ledger)
    algorithm, budget = with_target(algorithm, task, graph, config.privacy)
    ledger.budget = _covering(budget, config.rounds)
    return SiteParts(site, site.node, config, description, graph, algorithm, task)


def _graph_learner(site: SiteConfig, config: Config) -> SiteParts:
    privacy, agreed = config.privacy, site.network_config
    method = graph_method(config.algorithm, config.rounds, privacy)
    graph = named_graph(config.graph)
    table = np.asarray(signals.build(site.data.name, site.data.parameters))
    clip, nodes = signal_clip(config.algorithm), np.array([site.node])
    checked = Signals([table], clip=clip, nodes=nodes)  # before the site's state is opened
    if checked.d != agreed.data.vertices:
        raise _unlike(site, f"signals on {checked.d} vertices", f"on {agreed.data.vertices}")
    method.check(checked, graph)
    description = NetworkDescription.of(config, agreed.names, graph, vertices=checked.d, name=agreed.name)
    ledger, noise = open_private_state(site.state, _run(description, checked.clients[0]), site.noise_seed)
    task = Signals([table], clip=clip, nodes=nodes, noise=noise, ledger=ledger)
    limit = privacy.budget or privacy.epsilon
    if limit is not None:
        if method.noise is None:
            raise TacitError(f"{method.title} without privacy.epsilon has no noise, which no privacy.budget allows")
        budget = Budget(limit, privacy.delta)
        budget.accept(plan(method, method.rounds, task.sampling, task.nodes))
        ledger.budget = _covering(budget, config.rounds)
    return SiteParts(site, site.node, config, description, graph, method, task)


def _records(site: SiteConfig) -> Dataset:
    """The site's data set, with classes numbered as all sites do, and of the form that all have."""
    name, params, form = site.data.name, site.data.parameters, site.network_config.data
    labels = {"labels": list(form.label_order)} if "labels" in datasets.parameters(name) else {}
    if params.get("labels", labels.get("labels")) != labels.get("labels"):
        raise TacitError(f"{site.name}: data.labels are not those of {site.network}: leave them out")
    data = datasets.build(name, {**params, **labels})
    if not isinstance(data, Dataset):
        raise TacitError(f"{name} gives no Dataset: return one, such as Dataset.from_arrays(x, y, labels=…)")
    if data.inputs != form.inputs:
        raise _unlike(site, f"records of shape {list(data.inputs)}", f"of shape {list(form.inputs or ())}")
    if data.classes != len(form.label_order):
        raise _unlike(site, f"{data.classes} classes", f"{len(form.label_order)}")
    return data


def _unlike(site: SiteConfig, here: str, agreed: str) -> TacitError:
    return TacitError(f"{site.name}: the data have {here}, and {site.network} says {agreed}")


def _covering(budget: Budget | None, rounds: int) -> Budget | None:
    """A budget that ends before the run would leave all others waiting."""
    if budget is not None and not budget.covers:
        raise TacitError(
            f"the budget ε = {budget.epsilon:g} at δ = {budget.delta:g} does not cover the {rounds} rounds that the "
            "sites agreed on: agree on fewer rounds, more noise or a larger budget"
        )
    return budget


def _run(description: NetworkDescription, *arrays: npt.NDArray[Any]) -> bytes:
    """A digest of all that decides which values this site's noise is added to."""
    digest = hashlib.blake2b(description.digest.encode())
    for array in arrays:
        digest.update(f" {array.shape} {array.dtype} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
