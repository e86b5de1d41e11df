"""From a config to a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tacit.algorithms import Algorithm
from tacit.device import choose_device
from tacit.errors import TacitError
from tacit.graphs import Graph, require
from tacit.networks import Cluster, ClusterCoordinator, Coordinator, Costs, Network, ProcessGroup, Simulated
from tacit.privacy import Ledger, Noise
from tacit.runs.config import Config
from tacit.runs.config_batch import batch_relation
from tacit.runs.data_part import build_data
from tacit.runs.observer import Observer
from tacit.runs.parts import (
    Shards,
    UserParts,
    adapt_model,
    build_algorithm,
    build_graph,
    build_model,
    build_shards,
    build_task,
    check_names,
    check_shards,
)
from tacit.runs.privacy_target import apply_privacy_target, check_noise_level
from tacit.runs.recipes import apply_recipe
from tacit.runs.resolved_config import resolved_config
from tacit.runs.run import Run
from tacit.runs.run_folder import RunFolder
from tacit.runs.secret_noise import check_secret_noise, check_sharding, reserve_records
from tacit.tasks import Dataset, Model


def from_config(
    config: Config,
    parts: UserParts | None = None,
    *,
    ranks: ProcessGroup | None = None,
    out: Path | None = None,
    resume: bool = False,
    extend: int = 0,
    observers: Sequence[Observer] = (),
    secret_noise: bool = False,
    accept_learnt: bool = False,
) -> Run:
    """Build the run that a config describes. Names and parameters are checked before data are loaded.

    Args:
        config: The config.
        parts: Objects to use in place of what the config names.
        ranks: The processes of a cluster; this one then hosts its block of the nodes.
        out: The folder to keep the run in. A run that cannot begin leaves no folder behind.
        resume: Continue the run in `out` from its last checkpoint instead of starting a new one.
        extend: Continue it for so many more rounds, with the same noise, schedules and budget. It is recorded in the
            ledger, so that a later call without `extend` continues the extended run.
        observers: Notified after the run's folder.
        secret_noise: Whether a config with `noise = "secret"` is accepted. The run is then added to the records
            ledger before its first release. Its key is in `out` until the run has ended, so that it can be resumed.
            Simulations leave it out.
        accept_learnt: Whether classes, or a range of targets, that were learnt from the records are accepted. They are
            then in the ledger as a value that was read without noise, so the run states no guarantee.

    Raises:
        TacitError: The config is invalid, or the run cannot be kept or resumed in `out`.
    """
    coordinator = Coordinator() if ranks is None else ClusterCoordinator(ranks)
    check_secret_noise(config, accepted=secret_noise, processes=coordinator.processes)
    device = choose_device(config.device, None if ranks is None else ranks.local_rank)
    config, parts = apply_recipe(config, parts)
    complete = _complete(config, parts)
    config = resolved_config(config, parts)
    costs = Costs(**config.network.model_dump())
    if ranks is not None:
        ranks.use_device(device)
    network: Network = Simulated(complete.graph, costs) if ranks is None else Cluster(complete.graph, ranks, costs)
    network.device = device
    if extend and not resume:
        raise TacitError(f"extend = {extend} continues a run, so it needs resume and the folder of the run")
    if out is None:
        ledger = Ledger()
        if accept_learnt:
            _note_learnt_facts(complete.data, ledger)
        return _assemble(config, complete, network, coordinator, ledger, observers)
    secret = config.noise == "secret"
    opened = RunFolder.open if resume else RunFolder.create
    folder = opened(out, coordinator, secret=secret)
    try:
        rounds = folder.extend(config.rounds, extend)
        observers = [folder, *observers]
        if accept_learnt:
            _note_learnt_facts(complete.data, folder.ledger)
        run = _assemble(config, complete, network, coordinator, folder.ledger, observers, rounds, folder.noise)
        folder.begin(run)
    except BaseException:
        folder.discard()
        raise
    return run


def _note_learnt_facts(data: Dataset, ledger: Ledger) -> None:
    """Note in the ledger what was learnt from the records without noise, so that nothing is guaranteed."""
    if not data.declared:
        ledger.values.note_learnt(
            f"{'classes were' if data.classes else 'range of the targets was'} learnt from the records"
        )


class _Complete(NamedTuple):
    """All parts of a run, whether named or given."""

    algorithm: Algorithm[Any]
    graph: Graph
    data: Dataset
    shards: Shards
    model: Model


def _complete(config: Config, parts: UserParts) -> _Complete:
    check_names(config, parts)
    algorithm = (parts.algorithm or build_algorithm(config.algorithm)).with_rounds(config.rounds)
    graph = parts.graph or build_graph(config.graph)
    require(graph, *algorithm.needs, who=algorithm.title)
    check_sharding(config, parts, graph.nodes)
    check_noise_level(algorithm, config.privacy)
    if config.batch.clipping == "automatic" and getattr(algorithm, "clip", 0.0) is None:
        raise TacitError(f'{algorithm.title} does not clip gradients: remove batch.clipping = "automatic"')
    data = build_data(config.data, batch_relation(config.batch), parts.data, parts.features)
    shards = parts.sharding or build_shards(config.sharding, data, graph.nodes, config.seed)
    check_shards(shards, len(data.y), graph.nodes)
    if parts.model is None:
        model = build_model(config, data, algorithm, parts.task)
    else:
        model = adapt_model(parts.model, config, data, algorithm, parts.task)
    return _Complete(algorithm, graph, data, shards, model)


def _assemble(
    config: Config,
    parts: _Complete,
    network: Network,
    coordinator: Coordinator,
    ledger: Ledger,
    observers: Sequence[Observer],
    rounds: int | None = None,
    secret: Noise | None = None,
) -> Run:
    """The run of the nodes that `network` hosts; of an extended run, `rounds` are all its rounds.

    `secret` is noise whose key is in the folder of the run. Secret noise without a folder has a key in memory only.
    """
    rounds = rounds or config.rounds
    if rounds > config.rounds:
        parts.algorithm.check_extension(rounds)
    spread = coordinator.processes > 1
    # Noise is calibrated for all nodes; a process of a cluster then hosts its own nodes, with its own ledger.
    whole_ledger = Ledger() if spread else ledger
    noise = secret or (Noise.from_system() if config.noise == "secret" else Noise.from_seed(config.seed))
    weights = parts.algorithm.mixing.weights
    how: dict[str, Any] = {"ledger": whole_ledger, "weights": weights, "device": network.device}
    task = build_task(config, parts.model, parts.data, parts.shards, noise=noise, **how)
    algorithm, budget = apply_privacy_target(parts.algorithm, task, parts.graph, config.privacy, rounds)
    if spread:
        task, budget = task.host(network.nodes.tolist(), ledger), budget and budget.for_nodes(network.nodes)
    ledger.budget = budget
    target = config.privacy
    reserve_records(task, algorithm, target.delta, target.population, target.population_budget, rounds)
    return Run(
        task,
        algorithm,
        network,
        coordinator=coordinator,
        observers=observers,
        delta=config.privacy.delta,
        evaluate_every=config.evaluate_every,
        measure=config.measure,
        config=config.as_dict(),
        rounds=rounds,
    )
