"""The plan of a training: what each method would cost and reach."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError, unknown
from tacit.plans.measured import Expectation, expected_accuracy
from tacit.privacy import Paired
from tacit.runs import (
    AUTO,
    Config,
    PublicFacts,
    Run,
    Shards,
    UserParts,
    apply_recipe,
    batch_relation,
    build_data,
    build_graph,
    build_shards,
    default_colluders,
    from_config,
    read_toml,
)
from tacit.sweeps import synthetic_records
from tacit.tasks import Dataset, datasets

METHODS = (AUTO, "dyn-d2p", "dp-sgd", "lt-admm-dp", "porter")
"""The methods that a plan shows: the recipe, and methods of the papers with their default settings."""
_TRIAL_ROUNDS, _TRIAL_RECORDS = 3, 20_000
_FILES = {".csv": "csv", ".gz": "csv", ".parquet": "parquet", ".npz": "npz"}


@dataclass(frozen=True)
class MethodPlan:
    """What one method would cost and reach.

    Attributes:
        method: The recipe, or the name of the algorithm.
        noise_multiplier: Standard deviation of the noise of the first release of round 0 divided by its sensitivity;
            largest node. With paired noise: that of independent noise with the same protection.
        mean_noise: Standard deviation of the noise in the mean over the network, per parameter, relative to the
            sensitivity of one node, for the same release.
        rounds: Rounds of the run.
        bytes_per_node: What a node sends in the whole run, from a trial of three rounds.
        seconds_per_node: Computation per node, from the same trial on this machine.
        expected: The accuracy that was measured elsewhere; None if nothing similar was measured.
        refused: Why the method cannot be used here, if so; the other values are then None.
    """

    method: str
    noise_multiplier: float | None = None
    mean_noise: float | None = None
    rounds: int | None = None
    bytes_per_node: int | None = None
    seconds_per_node: float | None = None
    expected: Expectation | None = None
    refused: str | None = None


@dataclass(frozen=True)
class TrainingPlan:
    """The plans of all methods for one data set.

    Attributes:
        facts: The public facts of the records.
        paired_gain: By which factor paired noise lowers the noise of the mean, at most: √(n − colluders).
        config: The config of the first method that can be used, with all its settings.
        declared: Whether the classes are public, and not learnt from the records.
    """

    data: str
    facts: PublicFacts
    nodes: int
    epsilon: float
    delta: float
    colluders: int
    methods: list[MethodPlan]
    config: dict[str, Any]
    declared: bool = True

    @property
    def paired_gain(self) -> float:
        return math.sqrt(max(1, self.nodes - self.colluders))

    @property
    def note(self) -> str:
        """What the plan has cost the records."""
        if self.declared:
            return "Nothing was released."
        return "The classes were learnt from the records, so this plan depends on them: set data.labels."

    @property
    def warning(self) -> str | None:
        """A sentence if the best accuracy that was measured in similar cases is about trivial."""
        known = [each.expected for each in self.methods if each.expected is not None]
        if not known or any(not each.is_trivial for each in known):
            return None
        return (
            f"ε = {self.epsilon:g} is out of reach with {self.facts.records:,} records: what was measured in similar "
            "cases is about as good as the trivial predictor. Use more records, a larger ε or paired noise"
        )

    def as_dict(self) -> dict[str, Any]:
        table = asdict(self)
        table.pop("config")
        return {**table, "paired_gain": self.paired_gain, "note": self.note, "warning": self.warning}


def plan_training(config: Config, methods: tuple[str, ...] = METHODS) -> TrainingPlan:
    """Return what each method would cost and reach with the data of a config. Nothing is released.

    Privacy:
        The records are used for public facts only: shape, kind of target and number (of each node, if a column decides
        on the node). Noise is planned, and trials run
        on synthetic records. If the classes are not declared, their number is learnt from the records, and the plan
        states that it depends on them.

    Raises:
        TacitError: There is no target ε.
    """
    if config.privacy.epsilon is None:
        raise TacitError("a plan needs a target: set --epsilon, or privacy.epsilon in the config")
    nodes = build_graph(config.graph).nodes
    data = build_data(config.data, batch_relation(config.batch))
    facts, epsilon = PublicFacts.of(data), config.privacy.epsilon
    synthetic = synthetic_records(data, most=_TRIAL_RECORDS)
    plans: list[MethodPlan] = []
    made: dict[str, Any] = {}
    for method in methods:
        plan, table = _plan_method(config, method, data, synthetic, facts)
        plans.append(plan)
        made = made or table
    colluders = _colluders(config, nodes)
    return TrainingPlan(data.name, facts, nodes, epsilon, config.privacy.delta, colluders, plans, made, data.declared)


def _colluders(config: Config, nodes: int) -> int:
    return default_colluders(nodes) if config.privacy.colluders is None else config.privacy.colluders


def _plan_method(
    config: Config, method: str, data: Dataset, synthetic: Dataset, facts: PublicFacts
) -> tuple[MethodPlan, dict[str, Any]]:
    own = config.algorithm if config.algorithm.name == method else {"name": method}
    table = {key: getattr(config, key) for key in config.model_fields_set}
    try:
        chosen = Config.parse({**table, "algorithm": own, "noise": "simulated"})
        full, _ = apply_recipe(chosen, UserParts(data=data))
        shards = _column_shards(full, data)
        run = from_config(full, UserParts(data=synthetic_like(data, synthetic), sharding=shards))
        multiplier, mean = _noise(run)
        trial = from_config(
            full.model_copy(update={"rounds": _TRIAL_ROUNDS, "evaluate_every": 1}),
            UserParts(data=run.task.data, sharding=shards),
        ).go()
    except TacitError as error:
        return MethodPlan(method, refused=str(error)), {}
    nodes, name, goal = len(run.task.nodes), full.recipe or method, config.privacy
    colluders = _colluders(config, nodes) if goal.noise == "paired" else None
    plan = MethodPlan(
        name,
        multiplier,
        mean,
        full.rounds,
        round(_whole_run(trial, "bytes", full.rounds) / nodes),
        _whole_run(trial, "wall_seconds", full.rounds) / nodes,
        expected_accuracy(facts, data.name, name, float(goal.epsilon or 0.0), nodes, colluders),
    )
    return plan, full.as_dict()


def _column_shards(config: Config, data: Dataset) -> Shards | None:
    """Return the shards of nodes that are categories of a column, which synthetic records do not have; else None.

    Only the number of records of each node has an influence, and it is public.
    """
    if config.sharding.name != "column":
        return None
    return build_shards(config.sharding, data, build_graph(config.graph).nodes, config.seed)


def _whole_run(trial: Run, column: str, rounds: int) -> float:
    """Return what a run of so many rounds costs: what the trial did, and its second round again and again.

    The first round also releases statistics, and the last one is followed by closing mixings.
    """
    costs = [float(row[column]) for row in trial.evaluations]
    return costs[-1] + (rounds - _TRIAL_ROUNDS) * (costs[2] - costs[1])


def synthetic_like(data: Dataset, synthetic: Dataset) -> Dataset:
    """Return synthetic records, as many as `data` has: the number decides the noise."""
    return synthetic if len(synthetic.y) == len(data.y) else synthetic_records(data)


def _noise(run: Run) -> tuple[float, float]:
    """Return the largest noise multiplier of the first round, and the relative noise of the mean over the network.

    Statistics before round 0 have noise of their own. The noise that pairs of nodes share cancels in the mean.
    """
    privacy = run.algorithm.privacy
    sampling = privacy.sampling(run.task.without_records(gradients=False))
    release = next(iter(privacy.releases(0, run.task.nodes, sampling)))
    mechanism, own = release.mechanism, release.multipliers
    if isinstance(mechanism, Paired):
        own = mechanism.own / (mechanism.sensitivity * mechanism.plan.sensitivity)
    return float(release.multipliers.max()), float(np.linalg.norm(own)) / len(own)


def plan_config(source: str, settings: Mapping[str, Any]) -> Config:
    """Return the config of a plan: from a config file, a data set or a file of records, with further settings.

    Raises:
        TacitError: There is no such data set or file.
    """
    path = Path(source)
    if path.suffix == ".toml":
        table = read_toml(path)
    elif source in datasets:
        table = {"data": {"name": source}, "algorithm": AUTO}
    elif path.suffix in _FILES and path.exists():
        table = {"data": {"name": _FILES[path.suffix], "path": source}, "algorithm": AUTO}
    else:
        raise unknown("data set, config or file", source, datasets)
    for section, values in settings.items():
        given = table.get(section, {})
        given = {"name": given} if isinstance(given, str) else given
        table[section] = {**given, **{key: value for key, value in values.items() if value is not None}}
    return Config.parse(table, source)
