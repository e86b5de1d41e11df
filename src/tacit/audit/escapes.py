"""A test for values that leave a node other than by a release: two runs with different records and the same releases.

The second run replaces every released value by that of the first. What the first run sends, measures and writes is then
a function of public values only, if nothing escapes, so that the second run gives the same bits. The same holds for the
parameters at which released gradients are taken. A third run shows that a simulation sends the same messages.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from tacit.audit.message_log import LoggedMessage, MessageLog, SimulationLog
from tacit.audit.release_inputs import ReleaseInputs
from tacit.privacy import Privacy, Release, plan
from tacit.runs import Config, Row, Run, RunFolder, UserParts, from_config, storage
from tacit.runs.metrics import Utility, metric, metrics
from tacit.tasks import Dataset, Target

_TIMES = ("wall_seconds", "seconds")
_GIVEN = ("out", "data", "sharding")  # keys of configs and results that state what the check itself sets


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

    Messages, releases, metrics, traces, files, warnings and errors must be the same, bit for bit. So must the
    parameters and clips of released gradients, and the noise scales. Not compared are wall-clock times, checkpoints
    (the private state of a node), models and what is measured on them if the guarantee does not cover them, and traces
    that the algorithm's plan declares as not covered.

    The network is no simulation for the algorithm, so that messages that measure count as messages. A third run, in a
    simulation, must send the same messages as the first.

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
        others = replace(own, data=_other_records(task.data, tokens=task.model.takes_tokens))
        released: dict[tuple[int, str], Tensor] = {}
        built, rebuilt = from_config(config, own), from_config(config, others)
        graph = built.network.graph
        simulated = _Observed.of(built, Path(folder, "simulated"), SimulationLog(graph), released)
        first = _Observed.of(built, Path(folder, "first"), MessageLog(graph), released)
        second = _Observed.of(rebuilt, Path(folder, "second"), MessageLog(graph), released)
        if first.error is not None and simulated.end == first.end == second.end:
            raise first.error
        escapes = (*first.differences(second), *first.differences_from_simulation(simulated))
    return EscapeCheck(len(first.network.messages), len(first.releases), escapes, first.run.privacy)


class _CheckedRun(Run):
    """A run whose evaluations and mean model are no messages. All that a round sends is one."""

    network: MessageLog

    def _measure(self) -> Row:
        with self.network.paused():
            return super()._measure()

    @property
    def utility(self) -> Utility:
        with self.network.paused():
            return super().utility

    def mean_parameters(self) -> Tensor | None:
        with self.network.paused():
            return super().mean_parameters()


@dataclass(frozen=True)
class _Observed:
    """A finished run and everything that others can see of it."""

    run: Run
    network: MessageLog
    inputs: ReleaseInputs
    releases: list[Release]
    folder: Path
    warnings: list[tuple[str, str]]
    error: Exception | None

    @classmethod
    def of(cls, built: Run, folder: Path, network: MessageLog, released: dict[tuple[int, str], Tensor]) -> _Observed:
        """Make the rounds of `built` anew, with a network that keeps messages and a folder of its own."""
        kept = RunFolder.create(folder)
        task, error = built.task.host(range(built.task.n), kept.ledger), None
        inputs = ReleaseInputs(task, released)
        run = _CheckedRun(task, built.algorithm, network, observers=[kept], delta=built.delta, config=built.config)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                run.go()
            except Exception as raised:  # whether it is raised may depend on the records
                error = raised
        texts = [(warning.category.__name__, str(warning.message)) for warning in caught]
        return cls(run, network, inputs, list(task.ledger.releases()), folder, texts, error)

    @property
    def end(self) -> tuple[int, str | None, str]:
        """How the run ended: after how many rounds, and why."""
        return self.run.t, self.run.stopped, type(self.error).__name__

    def differences(self, other: _Observed) -> Iterator[str]:
        """Yield one sentence for each kind of value that differs."""
        yield from self._unplanned()
        differing = _differing(self.network.messages, other.network.messages)
        if differing:
            yield f"the {differing[0]} sends values that depend on the records ({len(differing)} messages differ)"
        yield from self.inputs.differences(other.inputs)
        if self.warnings != other.warnings:
            yield "the warnings depend on the records"
        if self.end != other.end:
            yield "whether and where the run ends early depends on the records"
            return
        if len(self.network.messages) != len(other.network.messages):
            yield "the number of messages depends on the records"
        if [_facts(release) for release in self.releases] != [_facts(release) for release in other.releases]:
            yield "the releases in the ledger (steps, noise or sampling) depend on the records"
        yield from self._differing_results(other)

    def differences_from_simulation(self, simulated: _Observed) -> Iterator[str]:
        """Yield a sentence if a simulation does more than to measure: what is tested here would not be what it runs."""
        logs = [[message for message in log.messages if message.metered] for log in (self.network, simulated.network)]
        differing = _differing(*logs)
        if differing:
            yield f"the {differing[0]} sends other values in a simulation than in a real network"
        elif len(logs[0]) != len(logs[1]) or self.end != simulated.end:
            yield "the messages of a simulation are not those of a real network"
        elif not _same_bits(self.run.models, simulated.run.models):
            yield "the models of a simulation are not those of a real network"

    def _unplanned(self) -> Iterator[str]:
        """Yield a sentence if an algorithm that plans its releases makes others."""
        task, algorithm = self.run.task, self.run.algorithm
        planned = plan(algorithm.privacy, self.run.t, algorithm.privacy.sampling(task), task.nodes)
        if planned and [_facts(release) for release in planned] != [_facts(release) for release in self.releases]:
            yield "the releases are not those that the algorithm's plan states"

    def _differing_results(self, other: _Observed) -> Iterator[str]:
        if not self.run.evaluations:
            return
        covers_models = bool(self.run.privacy.covers_models)
        hidden = {name for name in self.run.evaluations[0] if not _is_covered(name, covers_models)}
        measured = set() if covers_models else {"metrics", "confusion"}
        for name in self.run.evaluations[0].keys() - hidden:
            if [row[name] for row in self.run.evaluations] != [row[name] for row in other.run.evaluations]:
                yield f"the metric {name} depends on the records other than through releases"
        if covers_models and not _same_bits(self.run.models, other.run.models):
            yield "the models depend on the records other than through releases, although the algorithm declares them"
        if self.run.algorithm.privacy.covers_traces and self.run.trace != other.run.trace:
            yield "the traces depend on the records, and the algorithm's plan does not declare it (covers_traces)"
        for name in sorted(path.name for path in self.folder.iterdir() if path.suffix in (".json", ".toml")):
            mine, theirs = (_public(run.folder / name, hidden | measured) for run in (self, other))
            if mine != theirs:
                yield f"the file {name} depends on the records other than through releases"


def _differing(mine: list[LoggedMessage], theirs: list[LoggedMessage]) -> list[str]:
    """The names of messages that differ, as far as both lists go."""
    pairs = zip(mine, theirs, strict=False)
    return [one.name for one, other in pairs if one.name != other.name or not _same_bits(one.value, other.value)]


def _is_covered(name: str, covers_models: bool) -> bool:
    """Whether a column of the history may depend on released values only."""
    if name not in metrics:  # the number of the round, and columns of `Algorithm.norms`
        return True
    return name not in _TIMES and metric(name).is_covered(covers_models)


def _public(path: Path, hidden: set[str]) -> Any:
    """The content of a file without times, without what the check sets and without the results in `hidden`."""
    return {key: value for key, value in storage.read_table(path).items() if key not in {*hidden, *_TIMES, *_GIVEN}}


def _other_records(data: Dataset, *, tokens: bool) -> Dataset:
    """A data set of the same shape and type whose training records are all different."""
    generator = torch.Generator().manual_seed(0)
    if tokens:  # no larger than those of the records, which are valid for the model
        largest = int(data.x.max())
        x = torch.where(data.x < largest, data.x + 1, data.x.clamp(max=0)) if largest > 0 else data.x + 1
    else:
        x = torch.randn(data.x.shape, generator=generator) * data.x.abs().max().clamp(min=1) + 0.5
    private = data.private
    if private is not None:  # the numbers of columns whose range the run releases
        numbers = torch.randn(private.train.shape, generator=generator, dtype=torch.float64) * 100
        private = replace(private, train=numbers.numpy())
    return replace(data, x=x, y=_other_targets(data.y, data.target), private=private)


def _other_targets(y: Tensor, target: Target) -> Tensor:
    """Valid targets that all differ from y."""
    if target.kind == "class":
        return (y + 1) % target.classes
    if target.kind == "labels":
        return 1 - y
    low, high = (-1.0, 1.0) if target.range is None or target.kind == "number" else target.range
    return torch.where(y < (low + high) / 2, high, low).to(y.dtype)


def _facts(release: Release) -> tuple[Any, ...]:
    sampling, mechanism = release.sampling, release.mechanism
    kinds = (release.step, release.purpose, release.unit, mechanism.name, sampling.kind, sampling.relation)
    return (*kinds, release.multipliers.tobytes(), release.rates.tobytes())


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.numpy().tobytes() == other.numpy().tobytes()
