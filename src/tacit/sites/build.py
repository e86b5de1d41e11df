"""Builds everything a site needs to run from its configuration files."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.algorithms import Algorithm, MixingOptions
from tacit.device import choose_device
from tacit.errors import TacitError
from tacit.graph_learning import Signals, reserve_signals
from tacit.graphs import require
from tacit.privacy import CPU_GENERATOR, Budget, KeyedPairNoise, Noise, PairPlan, generator_of, plan
from tacit.runs import (
    Config,
    UserParts,
    apply_privacy_target,
    build_algorithm,
    build_graph,
    build_model,
    build_task,
    check_names,
    require_method,
    reserve_records,
)
from tacit.sites.description import NetworkDescription, PairDescription
from tacit.sites.pair_keys import PairKeyFile
from tacit.sites.parts import GraphLearningParts, SiteParts, TrainingParts
from tacit.sites.private_state import open_private_state
from tacit.sites.records import load_records, wrong_format
from tacit.sites.signals import build_graph_method, is_graph_learning, signal_clip, signal_sources, with_statistic
from tacit.sites.site_config import SiteConfig
from tacit.sites.wire import MAX_SEQUENCE


def build_site(site: SiteConfig) -> SiteParts:
    """Build the parts of a site's run, and create its state folder and noise key if they do not exist.

    Raises:
        TacitError: If the configuration, the data or the state folder cannot be used. Nothing has been sent then.
    """
    config = site.network_config.config(data=site.data)
    require_method(config, str(site.network))
    if site.noise_seed is None:
        config = config.model_copy(update={"noise": "secret"})
    return _graph_learning_parts(site, config) if is_graph_learning(config.algorithm) else _training_parts(site, config)


def _training_parts(site: SiteConfig, config: Config) -> TrainingParts:
    check_names(config, UserParts())
    algorithm = build_algorithm(config.algorithm).with_rounds(config.rounds)
    _check_mixings(algorithm.mixing)
    _check_correlation(site, config)
    graph = build_graph(config.graph)
    require(graph, *algorithm.needs, who=algorithm.title)
    data, network = load_records(site, config.batch), site.network_config
    model = build_model(config, data, algorithm)
    nodes, records = np.array([site.node]), [np.arange(len(data.y))]
    new_task = partial(
        build_task,
        config,
        model,
        data,
        records,
        nodes=nodes,
        weights=algorithm.mixing.weights,
        network_sizes=_network_sizes(site, config, algorithm, len(data.y)),
        device=choose_device(site.device),
    )
    pairs: PairPlan | None = None
    if config.privacy.noise == "paired":  # its plan is compared with the other sites before the state is opened
        pairs = apply_privacy_target(algorithm, new_task(noise=Noise.from_seed(0)), graph, config.privacy)[0].pairs
    description = NetworkDescription.of(
        config,
        network.names,
        graph,
        model,
        data.inputs,
        data.classes,
        labels=network.data.label_order or None,
        columns=None if data.schema is None else data.schema.to_dict(),
        name=network.name,
        records=network.records,
        pairs=None if pairs is None else _described_pairs(site, pairs),
        features=None if data.features is None else data.features.description.digest,
    )
    run = _run_digest(description, data.x.numpy(), data.y.numpy(), generator=generator_of(choose_device(site.device)))
    secret = None
    if pairs is not None and site.noise_seed is None:
        secret = PairKeyFile.of(site.certificates.pair_key, site.node, pairs, description)
    ledger, noise, keys = open_private_state(site.state, run, site.noise_seed, secret)
    task = new_task(noise=noise, ledger=ledger)
    if secret is not None and keys is not None:
        task.pair_noise = KeyedPairNoise(site.node, keys.partners)
    algorithm, budget = apply_privacy_target(algorithm, task, graph, config.privacy)
    ledger.budget = _sufficient(budget, config.rounds)
    reserve_records(task, algorithm, config.privacy.delta, site.population, site.population_budget)
    return TrainingParts(site, site.node, config, description, graph, algorithm, task, keys)


def _graph_learning_parts(site: SiteConfig, config: Config) -> GraphLearningParts:
    privacy, network = config.privacy, site.network_config
    config = config.model_copy(update={"algorithm": with_statistic(config.algorithm, privacy)})
    method = build_graph_method(config.algorithm, config.rounds, privacy)
    graph = build_graph(config.graph)
    table = np.asarray(signal_sources.build(site.data.name, site.data.parameters))
    clip, nodes = signal_clip(config.algorithm), np.array([site.node])
    checked = Signals([table], clip=clip, nodes=nodes)  # errors must come before the state folder is created
    if checked.d != network.data.vertices:
        raise wrong_format(site, f"signals on {checked.d} vertices", f"{network.data.vertices} vertices")
    method.check(checked, graph)
    description = NetworkDescription.of(config, network.names, graph, vertices=checked.d, name=network.name)
    ledger, noise, _ = open_private_state(site.state, _run_digest(description, checked.clients[0]), site.noise_seed)
    task = Signals([table], clip=clip, nodes=nodes, noise=noise, ledger=ledger)
    limit = privacy.budget or privacy.epsilon
    if limit is not None:
        if method.noise is None:
            raise TacitError(f"{method.title} has no noise, so no privacy.budget can hold: set privacy.epsilon")
        budget = Budget(limit, privacy.delta)
        budget.accept(plan(method.privacy, method.rounds, task.sampling, task.nodes))
        ledger.budget = _sufficient(budget, config.rounds)
    reserve_signals(task, method, privacy.delta, site.population, site.population_budget)
    return GraphLearningParts(site, site.node, config, description, graph, method, task)


def _check_correlation(site: SiteConfig, config: Config) -> None:
    """Refuse noise whose earlier steps a site could not compute again."""
    if config.privacy.correlation == "time" and site.noise_seed is None:
        raise TacitError(
            'privacy.correlation = "time" cannot be used between sites with secret noise: the noise of a step depends '
            "on earlier steps, whose keys a site erases. Remove it"
        )


def _check_mixings(mixing: MixingOptions) -> None:
    """Refuse more mixings in the last round than messages of one round can be numbered."""
    if mixing.mixings + mixing.closing_rounds >= MAX_SEQUENCE:
        raise TacitError(
            f"algorithm.mixings + algorithm.closing_rounds must be below {MAX_SEQUENCE} between sites, got "
            f"{mixing.mixings + mixing.closing_rounds}"
        )


def uses_record_counts(algorithm: Algorithm[Any]) -> bool:
    """Whether a site needs the public number of records of all sites: for weights, paired noise or statistics."""
    return algorithm.mixing.weights == "records" or algorithm.pairs is not None or bool(algorithm.preparation)


def _network_sizes(
    site: SiteConfig, config: Config, algorithm: Algorithm[Any], records: int
) -> npt.NDArray[np.int64] | None:
    """Return the public number of records of every site, if network.toml has them; `records` are those of this site."""
    declared = site.network_config.records
    needs = {
        'algorithm.weights = "records"': algorithm.mixing.weights == "records",
        'privacy.noise = "paired"': config.privacy.noise == "paired",
        "privacy.shares": config.privacy.shares is not None,
    }
    if declared is None and any(needs.values()):
        reason = next(key for key, needed in needs.items() if needed)
        raise TacitError(f"{reason} needs records = N of every entry of [[sites]] in {site.network}")
    if declared is not None and declared[site.node] != records:
        raise TacitError(
            f"{site.name} has {records} training records, but {site.network} states {declared[site.node]}: correct "
            "records of [[sites]] at all sites, or remove records of all of them"
        )
    return None if declared is None else np.array(declared, np.int64)


def _described_pairs(site: SiteConfig, plan: PairPlan) -> PairDescription:
    network = site.network_config
    return PairDescription(epoch=network.epoch, plan=plan.digest, public_keys=network.public_keys)


def _sufficient(budget: Budget | None, rounds: int) -> Budget | None:
    """Refuse a budget that ends before the run: the other sites would wait for this one."""
    if budget is not None and not budget.covers:
        raise TacitError(
            f"The budget ε = {budget.epsilon:g} at δ = {budget.delta:g} does not cover all {rounds} rounds: use fewer "
            "rounds, more noise or a larger budget in network.toml"
        )
    return budget


def _run_digest(description: NetworkDescription, *arrays: npt.NDArray[Any], generator: str = CPU_GENERATOR) -> bytes:
    """Digest of everything that determines the values to which this site adds noise, and of the noise's generator."""
    digest = hashlib.blake2b(description.digest.encode())
    for array in arrays:
        digest.update(f" {array.shape} {array.dtype} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    if generator != CPU_GENERATOR:
        digest.update(generator.encode())
    return digest.digest()
