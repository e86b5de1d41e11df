"""The state of a run after a complete round: everything needed to resume it exactly."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tacit.errors import TacitError
from tacit.networks import Coordinator, Traffic
from tacit.privacy import Ledger
from tacit.runs import storage
from tacit.runs.preparation import restore_preparation
from tacit.tasks import Task

FILE = storage.CHECKPOINT_FILE
PREVIOUS = "previous.safetensors"  # of a run over several processes, in case not all of them wrote the last one


@dataclass(frozen=True)
class Checkpoint:
    """Complete rounds, the state of the algorithm, and the counters: ledger steps, draws of records, traffic."""

    t: int
    state: Any
    steps: int
    draws: int
    traffic: Traffic

    def facts(self, title: str, seconds: float, processes: int = 1) -> dict[str, Any]:
        """Everything except the state, for JSON."""
        return {
            "processes": processes,
            "algorithm": title,
            "seconds": seconds,
            "t": self.t,
            "steps": self.steps,
            "draws": self.draws,
            "traffic": {**asdict(self.traffic), "by_node": self.traffic.by_node.tolist()},
        }

    def tensors(self, title: str) -> dict[str, Tensor]:
        """The tensors of the state."""
        return _tensors(self.state, title)

    def save(
        self, folder: Path, title: str, seconds: float, processes: int = 1, *, keeps_previous: bool = False
    ) -> None:
        """Write the checkpoint into `folder`; with `keeps_previous`, the one that is there is kept beside it."""
        if keeps_previous and (folder / FILE).exists():
            os.replace(folder / FILE, folder / PREVIOUS)
        storage.write_checkpoint(folder / FILE, self.tensors(title), self.facts(title, seconds, processes))

    @classmethod
    def load(cls, folder: Path, start: Checkpoint, title: str, coordinator: Coordinator) -> tuple[Checkpoint, float]:
        """Read the last checkpoint that all processes have in their `folder`, and the seconds spent so far.

        Raises:
            TacitError: The checkpoint is missing or damaged, or belongs to a run that did not begin at `start`.
        """
        path = folder / (FILE if coordinator.processes == 1 else _common(folder, coordinator))
        tensors, facts = storage.read_checkpoint(path)
        return start.restored(tensors, facts, title, path), facts["seconds"]

    def restored(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], title: str, path: Path) -> Checkpoint:
        """The checkpoint with the contents of `path`. `self` is the start of the run, to which it must belong."""
        expected, found = _shapes(self.tensors(title)), _shapes(tensors)
        if (facts["algorithm"], found) != (title, expected):
            raise TacitError(
                f"{path} belongs to another run: {facts['algorithm']} with {found}, not {title} with {expected}"
            )
        counters = {key: facts[key] for key in ("t", "steps", "draws")}
        traffic = Traffic(**{**facts["traffic"], "by_node": np.array(facts["traffic"]["by_node"])})
        return Checkpoint(state=_with_tensors(self.state, tensors), traffic=traffic, **counters)

    def rewind(self, task: Task) -> None:
        """Take a task back to this checkpoint: its draws, its records as they were scaled, and its ledger.

        Releases with secret noise stay in the ledger. With a stored key they are repeated; otherwise they cannot be.
        """
        task.draws = self.draws
        restore_preparation(task, self.t)
        if task.noise.simulated:
            task.ledger.rewind(self.steps)
        elif task.noise.reproducible:
            task.ledger.repeat(self.steps)

    def check_ledger(self, ledger: Ledger, folder: Path) -> None:
        """Refuse a ledger with fewer steps than the run: it would report too little ε."""
        if ledger.steps < self.steps:
            raise TacitError(
                f"{folder / storage.LEDGER_FILE} has {ledger.steps} steps, but the run has made {self.steps}. "
                "Restore the run's own ledger to resume."
            )


def _common(folder: Path, coordinator: Coordinator) -> str:
    """The file with the last checkpoint that every process has. Evaluations keep processes within one checkpoint."""
    mine = {
        storage.read_checkpoint(path)[1]["t"]: path.name
        for path in (folder / PREVIOUS, folder / FILE)
        if path.is_file()
    }
    all_rounds = [set(map(int, text.split())) for text in coordinator.gather_strings(" ".join(map(str, mine)))]
    common = set.intersection(*all_rounds)
    if not common:
        raise TacitError(f"{folder} has no checkpoint that all {coordinator.processes} processes have written")
    return mine[max(common)]


def _tensors(state: Any, title: str) -> dict[str, Tensor]:
    """The tensors of a state by name. Those of a state inside it have its name and a dot before theirs."""
    values: dict[str, Any] = dict(vars(state)) if is_dataclass(state) else {}
    for key in [key for key, value in values.items() if is_dataclass(value)]:
        values |= {f"{key}.{name}": value for name, value in _tensors(values.pop(key), title).items()}
    if not values or not all(isinstance(value, Tensor) for value in values.values()):
        raise TacitError(f"the state of {title} must be a dataclass of tensors to be saved in a folder")
    return values


def _with_tensors(state: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state with the tensors that `_tensors` returned, on the devices on which its own are."""
    own = {key: value.to(getattr(state, key).device) for key, value in tensors.items() if "." not in key}
    for key in {key.partition(".")[0] for key in tensors if "." in key}:
        inside = {name.partition(".")[2]: value for name, value in tensors.items() if name.startswith(f"{key}.")}
        own[key] = _with_tensors(getattr(state, key), inside)
    return replace(state, **own)


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in tensors.items()}
