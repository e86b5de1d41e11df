"""A test for values that leave a node other than by a release: two runs with different records and the same releases.

The second run replaces every released value by that of the first. What the first run sends, measures and writes is then
a function of public values only, if nothing escapes, so that the second run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks import Simulated
from tacit.privacy import Privacy, Release, plan
from tacit.runs import Config, Run, RunFolder, UserParts, from_config, storage
from tacit.runs.metrics import metric
from tacit.tasks import Dataset

_TIMES = ("wall_seconds", "seconds")


@dataclass(frozen=True)
class EscapeCheck:
    """What was compared, and what differs.

    Attributes:
        messages: Number of messages that were compared, each one for all nodes.
        releases: Number of releases of the run.
        escapes: One sentence for each kind of value that depends on the records other than through a release.
        privacy: The privacy statement of the first run.
    """

    messages: int
    releases: int
    escapes: tuple[str, ...]
    privacy: Privacy


def check_escapes(config: Config, parts: UserParts | None = None) -> EscapeCheck:
    """Run the algorithm of a config twice, with different training records and the same releases, and compare.

    Messages, releases, metrics, traces and files must be the same, bit for bit. Not compared are wall-clock times,
    checkpoints (the private state of a node), models and what is measured on them if the guarantee does not cover
    them, and traces that the algorithm's plan declares as not covered.

    Args:
        config: The config of a short run.
        parts: Objects to use in place of what the config names.

    Example:
        >>> config = Config.parse({"rounds": 3, "graph": {"name": "ring", "nodes": 4}, "privacy": {"epsilon": 2.0}})
        >>> check_escapes(config).escapes
        ()
    """
    parts = parts or UserParts()
    with TemporaryDirectory() as folder:
        task = from_config(config, parts).task
        # Both runs get their records as objects, so that their folders describe them in the same way.
        own = replace(parts, data=task.data, sharding=list(task.shards))
        others = replace(own, data=_other_records(task.data))
        released: dict[tuple[int, str], Tensor] = {}
        first = _Observed.of(from_config(config, own), Path(folder, "first"), _Recorder(released))
        second = _Observed.of(from_config(config, others), Path(folder, "second"), _Replayer(released))
        escapes = tuple(first.differences(second))
    return EscapeCheck(len(first.network.messages), len(first.releases), escapes, first.run.privacy)


class MessageLog(Simulated):
    """A simulated network that keeps every message: what it is, and the values of all nodes."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.messages: list[tuple[str, Tensor]] = []
        self._paused = False

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        self._keep(f"mix of round {t}", *values)
        return super().mix(t, *values, row_bytes=row_bytes)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        self._keep(f"swap of round {t}", z if only is None else torch.where(only[:, None], z, 0.0))
        return super().swap(t, z, only)

    def max(self, s: Tensor) -> Tensor:
        self._keep("max", s)
        return super().max(s)

    def mean(self, x: Tensor) -> Tensor:
        self._keep("mean", x)
        return super().mean(x)

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        """Keep nothing inside the block: measurements are not messages."""
        before, self._paused = self._paused, True
        try:
            with super().unmetered():
                yield
        finally:
            self._paused = before

    def _keep(self, name: str, *values: Tensor) -> None:
        if not self._paused:
            self.messages += [(name, value.detach().clone()) for value in values]


class _Recorder:
    def __init__(self, released: dict[tuple[int, str], Tensor]) -> None:
        self._released = released

    def __call__(self, step: int, purpose: str, value: Tensor) -> None:
        self._released[step, purpose] = value.clone()


class _Replayer(_Recorder):
    def __call__(self, step: int, purpose: str, value: Tensor) -> None:
        before = self._released.get((step, purpose))
        if before is not None and before.shape == value.shape:
            value.copy_(before)


@dataclass(frozen=True)
class _Observed:
    """A finished run and everything that others can see of it."""

    run: Run
    network: MessageLog
    releases: list[Release]
    folder: Path

    @classmethod
    def of(cls, built: Run, folder: Path, on_release: _Recorder) -> _Observed:
        """Make the rounds of `built` anew, with a network that keeps messages and a folder of its own."""
        kept = RunFolder.create(folder)
        task, network = built.task.host(range(built.task.n), kept.ledger), MessageLog(built.network.graph)
        task.on_release = on_release
        run = Run(task, built.algorithm, network, observers=[kept], delta=built.delta, config=built.config)
        run.go()
        return cls(run, network, list(task.ledger.releases()), folder)

    def differences(self, other: _Observed) -> Iterator[str]:
        """Yield one sentence for each kind of value that differs."""
        yield from self._unplanned()
        pairs = zip(self.network.messages, other.network.messages, strict=False)
        differing = [name for (name, mine), (same, theirs) in pairs if name != same or not _same_bits(mine, theirs)]
        if differing:
            yield f"the {differing[0]} sends values that depend on the records ({len(differing)} messages differ)"
        if len(self.network.messages) != len(other.network.messages):
            yield "the number of messages depends on the records"
        if [_facts(release) for release in self.releases] != [_facts(release) for release in other.releases]:
            yield "the releases in the ledger (steps, noise or sampling) depend on the records"
        yield from self._differing_results(other)

    def _unplanned(self) -> Iterator[str]:
        """Yield a sentence if an algorithm that plans its releases makes others."""
        task, algorithm = self.run.task, self.run.algorithm
        planned = plan(algorithm.privacy, self.run.t, algorithm.privacy.sampling(task), task.nodes)
        if planned and [_facts(release) for release in planned] != [_facts(release) for release in self.releases]:
            yield "the releases are not those that the algorithm's plan states"

    def _differing_results(self, other: _Observed) -> Iterator[str]:
        covers_models = bool(self.run.privacy.covers_models)
        hidden = {name for name in self.run.history[0] if not _is_covered(name, covers_models)}
        for name in self.run.history[0].keys() - hidden:
            if [row[name] for row in self.run.history] != [row[name] for row in other.run.history]:
                yield f"the metric {name} depends on the records other than through releases"
        if covers_models and not _same_bits(self.run.models, other.run.models):
            yield "the models depend on the records other than through releases, although the algorithm declares them"
        if self.run.algorithm.privacy.covers_traces and self.run.trace != other.run.trace:
            yield "the traces depend on the records, and the algorithm's plan does not declare it (covers_traces)"
        for name in sorted(path.name for path in self.folder.iterdir() if path.suffix in (".json", ".toml")):
            mine, theirs = (_public(run.folder / name, hidden) for run in (self, other))
            if mine != theirs:
                yield f"the file {name} depends on the records other than through releases"


def _is_covered(name: str, covers_models: bool) -> bool:
    """Whether a column of the history may depend on released values only."""
    if name == "round":
        return True
    measured = metric(name)
    return name not in _TIMES and not measured.reads_records and (covers_models or not measured.reads_models)


def _public(path: Path, hidden: set[str]) -> Any:
    """The content of a file without times, and without the results in `hidden`."""
    return {key: value for key, value in storage.read_table(path).items() if key not in {*hidden, *_TIMES, "out"}}


def _other_records(data: Dataset) -> Dataset:
    """A data set of the same shape and type whose training records are all different."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(data.x.shape, generator=generator) * data.x.abs().max().clamp(min=1) + 0.5
    return replace(data, x=x, y=(data.y + 1) % data.classes)


def _facts(release: Release) -> tuple[Any, ...]:
    sampling, mechanism = release.sampling, release.mechanism
    kinds = (release.step, release.purpose, release.unit, mechanism.name, sampling.kind, sampling.relation)
    return (*kinds, release.multipliers.tobytes(), release.rates.tobytes())


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.numpy().tobytes() == other.numpy().tobytes()
