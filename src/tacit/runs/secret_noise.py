"""Training with secret noise: what it needs, and the entry of the run in the records ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.privacy import Reservation, declares, plan
from tacit.runs.config import Config
from tacit.runs.config_batch import batch_relation
from tacit.runs.parts import UserParts
from tacit.tasks import STABLE_FOR, Task


def check_secret_noise(config: Config, *, accepted: bool, processes: int) -> None:
    """Refuse secret noise where it cannot be used. A simulation needs nothing.

    Args:
        config: The config.
        accepted: Whether the caller runs configs with secret noise; simulations do not.
        processes: The number of processes of the run.
    """
    if config.noise != "secret":
        return
    if not accepted:
        raise TacitError(
            'noise = "secret" is for tacit train; this is a simulation, which would add runs to the records ledger: '
            "remove noise from the config (on the command line, --set noise=)"
        )
    if processes > 1:
        raise TacitError(f"Secret noise needs a run in one process, got {processes}: remove --workers or torchrun")
    _check_missing(config.data.parameters)


def _check_missing(data: Mapping[str, Any]) -> None:
    """Refuse a table in which one missing cell would stop the run, which others can observe."""
    columns = data.get("columns")
    declared = columns.values() if isinstance(columns, Mapping) else ()
    if any(isinstance(each, Mapping) and each.get("missing") == "refuse" for each in (data, *declared)):
        raise TacitError(
            'With secret noise, missing = "refuse" is not accepted: one cell would decide whether the run starts. Use '
            '"middle" or "indicator", and check the table with tacit inspect FILE --check CONFIG'
        )


def check_sharding(config: Config, parts: UserParts, nodes: int) -> None:
    """Refuse shards in which one record decides where others go.

    A guarantee is about one record of one node, with all other records of all nodes as they are. In a simulation the
    shards stand for organisations that have their records already. With secret noise they are computed from the real
    records, so neighbouring data sets must have neighbouring shards. Arrays of indices must not depend on the records.
    """
    if config.noise != "secret" or parts.sharding is not None:
        return
    name, relation = config.sharding.name, batch_relation(config.batch)
    all_at_one_node = nodes == 1 and name == "iid" and not config.sharding.parameters.get("records")
    if all_at_one_node or STABLE_FOR.get(name) == relation:
        return
    fitting = " or ".join(f'"{each}"' for each, fits in STABLE_FOR.items() if fits == relation)
    raise TacitError(
        f'With secret noise and the relation "{relation}", sharding "{name}" is not accepted: one record would decide '
        f"at which node others are. Use sharding {fitting}, or one array of indices per node (Python)"
    )


def reserve_records(
    task: Task,
    algorithm: Algorithm[Any],
    delta: float,
    population: str | None = None,
    budget: float | None = None,
    rounds: int | None = None,
) -> None:
    """Give the task's ledger its entry in the records ledger, unless it has one or the run is a simulation.

    An extended run has more `rounds` than its algorithm.

    Raises:
        TacitError: The run is refused, for example because of the budget of the records.
    """
    if task.noise.simulated or task.ledger.reservation is not None:
        return
    privacy, journal, rounds = algorithm.privacy, task.ledger.journal, rounds or algorithm.rounds
    # Facts learnt from the records are no release: until the run ends with its reason, no total is known.
    sampling = privacy.sampling(task.without_records(gradients=False))
    planned = plan(privacy, rounds, sampling, task.nodes) if task.data.declared else []
    reservation = Reservation(
        task.noise,
        task.nodes,
        [task.data.raw[0].numpy(), task.data.y.numpy()],
        planned,
        title=f"{algorithm.title}, {rounds} rounds",
        delta=delta,
        population=population,
        budget=budget,
        exact_values_stay_local=declares(algorithm, "exact_values_stay_local"),
        run=None if journal is None else journal.run,
    )
    reservation.check(task.ledger)
    task.ledger.reservation = reservation
