"""Where a run stands after a whole round: all that is needed to go on from there, exactly."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tacit.errors import TacitError
from tacit.networks import Traffic
from tacit.privacy.ledger import Ledger
from tacit.runs import storage

FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Rounds done, the algorithm's state, and the counters: the ledger's steps, draws of records, traffic."""

    t: int
    state: Any
    steps: int
    draws: int
    traffic: Traffic

    def save(self, folder: Path, title: str, seconds: float) -> None:
        facts = {
            "algorithm": title,
            "seconds": seconds,
            "t": self.t,
            "steps": self.steps,
            "draws": self.draws,
            "traffic": {**asdict(self.traffic), "by_node": self.traffic.by_node.tolist()},
        }
        storage.write_checkpoint(folder / FILE, _tensors(self.state, title), facts)

    @classmethod
    def load(cls, folder: Path, start: Checkpoint, title: str, config: Mapping[str, Any]) -> tuple[Checkpoint, float]:
        """The checkpoint in `folder` and the seconds spent so far, if its run is the one begun at `start`."""
        tensors, facts = storage.read_checkpoint(folder / FILE)
        _same_config(folder / "config.toml", config)
        expected, found = _shapes(_tensors(start.state, title)), _shapes(tensors)
        if (facts["algorithm"], found) != (title, expected):
            raise TacitError(
                f"{folder / FILE} belongs to another run: {facts['algorithm']} with {found}, "
                f"not {title} with {expected}"
            )
        counters = {key: facts[key] for key in ("t", "steps", "draws")}
        state = replace(start.state, **tensors)
        traffic = Traffic(**{**facts["traffic"], "by_node": np.array(facts["traffic"]["by_node"])})
        return cls(state=state, traffic=traffic, **counters), facts["seconds"]

    def check_ledger(self, ledger: Ledger, folder: Path) -> None:
        """A ledger that lacks steps would tell less than what was released."""
        if ledger.steps < self.steps:
            raise TacitError(
                f"{folder / 'ledger.sqlite'} holds {ledger.steps} steps, fewer than the {self.steps} of the run: "
                "put the run's own ledger back"
            )


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
