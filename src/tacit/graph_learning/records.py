"""The entry of a graph learning run in the records ledger."""

from __future__ import annotations

from typing import Any

from tacit.graph_learning.method import GraphMethod
from tacit.graph_learning.signals import Signals
from tacit.privacy import Reservation, declares, plan


def reserve_signals(
    task: Signals, method: GraphMethod[Any], delta: float, population: str | None = None, budget: float | None = None
) -> None:
    """Give the task's ledger its entry in the records ledger, unless it has one or the run is a simulation.

    Raises:
        TacitError: The run is refused, for example because of the budget of the signals.
    """
    if task.noise.simulated or task.ledger.reservation is not None:
        return
    reservation = Reservation(
        task.noise,
        task.nodes,
        task.clients,
        plan(method.privacy, method.rounds, task.sampling, task.nodes),
        title=f"{method.title}, at most {method.rounds} rounds",
        delta=delta,
        population=population,
        budget=budget,
        exact_values_stay_local=declares(method, "exact_values_stay_local"),
    )
    reservation.check(task.ledger)
    task.ledger.reservation = reservation
    if len(task.ledger):  # what was released before this run was created
        reservation.begin(task.ledger)
