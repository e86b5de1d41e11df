"""A finished run as its folder tells it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.ledger import Ledger
from tacit.privacy.release import Array, Release
from tacit.privacy.statement import Privacy
from tacit.reports.facts import GRAPH, NODES, THREATS
from tacit.reports.findings import AUDIT, Findings
from tacit.runs import TRACE_FILE, storage

Row = dict[str, Any]
LEDGER = "ledger.sqlite"


@dataclass(frozen=True)
class Released:
    """Releases of one kind, over all rounds and nodes: how many, with which noise, from which share of the records."""

    purpose: str
    mechanism: str
    times: int
    multipliers: tuple[float, float]
    rates: tuple[float, float]
    sampling: str


@dataclass(frozen=True)
class Record:
    """All that the page says about a run; `name` is the folder's or the site's, `trace` a row a round of what the
    method watched.

    `threats` says what is guaranteed against whom; a run of earlier versions has no such file, and nothing to say.
    `findings` are those of `tacit audit`, where it was asked to attack the run.
    """

    name: str
    config: dict[str, Any]
    result: dict[str, Any]
    history: list[Row]
    nodes: list[Row]
    graph: dict[str, Any]
    released: list[Released]
    trace: list[Row]
    threats: dict[str, Any] = field(default_factory=lambda: {"bounds": [], "pairs": None})
    findings: Findings = field(default_factory=Findings)

    @classmethod
    def read(cls, folder: Path) -> Record:
        if not (folder / "config.toml").is_file() or not (folder / "history.csv").is_file():
            raise TacitError(f"{folder} is not the folder of a run: it needs a config.toml and a history.csv")
        missing = [name for name in ("result.json", NODES, GRAPH) if not (folder / name).is_file()]
        if missing:
            raise TacitError(
                f"the run in {folder} has not ended, so there is no {missing[0]}: "
                f"go on with it by tacit train --resume {folder}"
            )
        result = _load(folder / "result.json")
        try:
            # A run that was taken up again and killed has rounds in its history that its result does not know.
            history, trace = (
                [row for row in rows if row["round"] <= result["rounds"]]
                for rows in (storage.read_history(folder / "history.csv"), _traced(folder / TRACE_FILE))
            )
            return cls(
                name=result.get("site") or folder.resolve().name,
                config=_load(folder / "config.toml"),
                result={**result, "privacy": Privacy(**result["privacy"])},
                history=history,
                nodes=storage.read_history(folder / NODES),
                graph=_load(folder / GRAPH),
                released=list(_released(folder, result.get("processes", 1))),
                trace=trace,
                **({"threats": _load(folder / THREATS)} if (folder / THREATS).is_file() else {}),
                findings=_found(folder / AUDIT),
            )
        except (KeyError, TypeError) as error:
            raise TacitError(f"{folder} was written by another version of Tacit: {error} is not as expected") from None

    @property
    def alone(self) -> bool:
        """Whether it is one site's part of a run: what is told is of its own node only."""
        return self.result.get("site") is not None

    @property
    def privacy(self) -> Privacy:
        privacy: Privacy = self.result["privacy"]
        return privacy


def records(folders: Sequence[Path]) -> list[Record]:
    """The runs in `folders`, each with a name of its own."""
    runs = [Record.read(folder) for folder in folders]
    names = [run.name for run in runs]
    return [
        replace(run, name=str(folder)) if names.count(run.name) > 1 else run
        for run, folder in zip(runs, folders, strict=True)
    ]


def settings(config: dict[str, Any]) -> dict[str, str]:
    """The config as lines of `section.key`: what `--set` takes.

    >>> settings({"rounds": 5, "graph": {"name": "ring", "nodes": 4}})
    {'rounds': '5', 'graph.name': 'ring', 'graph.nodes': '4'}
    """
    lines: dict[str, str] = {}
    for key, value in config.items():
        parts = {f"{key}.{name}": part for name, part in value.items()} if isinstance(value, dict) else {key: value}
        lines |= {
            name: part if isinstance(part, str) else json.dumps(part).replace("Infinity", "inf")
            for name, part in parts.items()
        }
    return lines


def _found(path: Path) -> Findings:
    return Findings.parse(_load(path), path) if path.is_file() else Findings()


def _traced(path: Path) -> list[Row]:
    """Only some methods watch anything."""
    return storage.read_history(path) if path.is_file() else []


def _released(folder: Path, processes: int) -> Iterator[Released]:
    """From the ledgers of all processes; where another host has kept some, a part would pass for the whole."""
    ledgers = [path for path in (folder / LEDGER, *sorted(folder.glob(f"rank-*/{LEDGER}"))) if path.is_file()]
    if len(ledgers) < processes:
        return
    lines = sorted((line for path in ledgers for line in Ledger(path).releases()), key=_kind)
    for (purpose, mechanism), same in groupby(lines, key=_kind):
        kind = list(same)
        noise, rates = _range(line.multipliers for line in kind), _range(line.rates for line in kind)
        yield Released(purpose, mechanism, len({line.step for line in kind}), noise, rates, kind[0].sampling.kind)


def _kind(line: Release) -> tuple[str, str]:
    return line.purpose, line.mechanism.name


def _range(vectors: Iterable[Array]) -> tuple[float, float]:
    ends = np.array([(vector.min(), vector.max()) for vector in vectors])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise TacitError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise TacitError(f"{path} cannot be read: it holds no table of keys and values")
    return value
