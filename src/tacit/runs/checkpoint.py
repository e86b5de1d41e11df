"""Where a run stands after a whole round: all that is needed to go on from there, exactly."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tacit.errors import TacitError
from tacit.networks import Coordinator, Traffic
from tacit.privacy.ledger import Ledger
from tacit.runs import storage

FILE = "checkpoint.safetensors"
PREVIOUS = "previous.safetensors"  # of a run over several processes, in case not all of them wrote the last one


@dataclass(frozen=True)
class Checkpoint:
    """Rounds done, the algorithm's state, and the counters: the ledger's steps, draws of records, traffic."""

    t: int
    state: Any
    steps: int
    draws: int
    traffic: Traffic

    def facts(self, title: str, seconds: float, processes: int = 1) -> dict[str, Any]:
        """All but the state, as JSON can hold it."""
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
        """The state."""
        return _tensors(self.state, title)

    def save(
        self, folder: Path, title: str, seconds: float, processes: int = 1, *, keeps_previous: bool = False
    ) -> None:
        """Write the checkpoint into `folder`; with `keeps_previous`, the one that is there is kept beside it."""
        if keeps_previous and (folder / FILE).exists():
            os.replace(folder / FILE, folder / PREVIOUS)
        storage.write_checkpoint(folder / FILE, self.tensors(title), self.facts(title, seconds, processes))

    @classmethod
    def load(
        cls, folder: Path, start: Checkpoint, title: str, config: Mapping[str, Any], coordinator: Coordinator
    ) -> tuple[Checkpoint, float]:
        """The last checkpoint that all processes of the run have kept in their `folder`, and the seconds spent so far,
        if it is the run begun at `start`."""
        path = folder / (FILE if coordinator.processes == 1 else _common(folder, coordinator))
        tensors, facts = storage.read_checkpoint(path)
        kept = facts.get("processes", 1)
        if kept != coordinator.processes:
            how = f"with --workers {kept}" if kept > 1 else "without --workers"
            raise TacitError(f"{folder} was kept by {kept} process{'es' if kept > 1 else ''}: resume it {how}")
        _same_config(folder / "config.toml", config)
        return start.gone_on(tensors, facts, title, path), facts["seconds"]

    def gone_on(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], title: str, path: Path) -> Checkpoint:
        """The checkpoint in `path` with these tensors and facts, if it is of the run begun here."""
        expected, found = _shapes(self.tensors(title)), _shapes(tensors)
        if (facts["algorithm"], found) != (title, expected):
            raise TacitError(
                f"{path} belongs to another run: {facts['algorithm']} with {found}, not {title} with {expected}"
            )
        counters = {key: facts[key] for key in ("t", "steps", "draws")}
        traffic = Traffic(**{**facts["traffic"], "by_node": np.array(facts["traffic"]["by_node"])})
        return Checkpoint(state=replace(self.state, **tensors), traffic=traffic, **counters)

    def check_ledger(self, ledger: Ledger, folder: Path) -> None:
        """A ledger that lacks steps would tell less than what was released."""
        if ledger.steps < self.steps:
            raise TacitError(
                f"{folder / 'ledger.sqlite'} holds {ledger.steps} steps, fewer than the {self.steps} of the run: "
                "put the run's own ledger back"
            )


def _common(folder: Path, coordinator: Coordinator) -> str:
    """The file with the last checkpoint that every process has: between two evaluations nobody gets ahead by two."""
    mine = {
        storage.read_checkpoint(path)[1]["t"]: path.name
        for path in (folder / PREVIOUS, folder / FILE)
        if path.is_file()
    }
    everyones = [set(map(int, text.split())) for text in coordinator.gather_strings(" ".join(map(str, mine)))]
    common = set.intersection(*everyones)
    if not common:
        raise TacitError(f"there is no checkpoint in {folder} that all {coordinator.processes} processes have kept")
    return mine[max(common)]


def _tensors(state: Any, title: str) -> dict[str, Tensor]:
    values = vars(state) if is_dataclass(state) else {}
    if not values or not all(isinstance(value, Tensor) for value in values.values()):
        raise TacitError(f"the state of {title} must be a dataclass of tensors to be kept in a folder")
    return values


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in tensors.items()}


def _same_config(path: Path, config: Mapping[str, Any]) -> None:
    try:
        saved = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TacitError(f"{path} cannot be read, so the run cannot be resumed: {error}") from None
    for key in sorted(saved.keys() | config.keys()):
        if saved.get(key) != config.get(key):
            raise TacitError(
                f"{path.parent} holds another run: {key} is {saved.get(key)} there and {config.get(key)} here"
            )
