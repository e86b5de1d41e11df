"""The facts about a run that its ledger records: config, inputs, software, times, and digests of the files."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tacit.errors import TacitError
from tacit.graphs import weights_digest
from tacit.privacy import CPU_GENERATOR, Ledger, Noise, declares, generator_of
from tacit.runs import storage
from tacit.runs.canonical import canonical_settings, settings_differences, settings_digest
from tacit.runs.config_sections import PART_SECTIONS
from tacit.tasks import Task

if TYPE_CHECKING:
    from tacit.runs.run import Run

FACTS_FORMAT = 1
_END = ("ended", "rounds", "stopped", "releases", "releases_digest", "models_released", "files")
_MODEL_FILES = (storage.MODEL_FILE, storage.MODELS_FILE)


def record_start(
    ledger: Ledger,
    config: Mapping[str, Any],
    noise: Noise,
    delta: float,
    *,
    nodes: tuple[int, int],
    processes: int = 1,
    inputs: Mapping[str, str] | None = None,
    exact_values_stay_local: bool = False,
    t: int = 0,
) -> None:
    """Record how a run begins, or a site's run begins again after `t` rounds.

    `nodes` are the first hosted node and the number of hosted nodes. `exact_values_stay_local` is what the method
    declares; the guarantee of a run that uses exact values inside a node rests on it.
    """
    settings = canonical_settings(config)
    ledger.facts.remove(*_END)
    ledger.facts.write(
        format=FACTS_FORMAT,
        config=settings,
        config_digest=settings_digest(settings),
        delta=delta,
        simulated=noise.simulated,
        seed=noise.seed,
        nodes=list(nodes),
        processes=processes,
        inputs=dict(inputs or {}),
        exact_values_stay_local=exact_values_stay_local,
        starts=[*ledger.facts.read().get("starts", []), _start(t)],
        extensions=[],
    )


def record_run_start(run: Run) -> None:
    """Record how a training run begins."""
    task, hosted = run.task, (int(run.task.nodes[0]), run.task.n)
    task.ledger.facts.write(generator=generator_of(task.device))
    record_start(
        task.ledger,
        run.config,
        task.noise,
        run.delta,
        nodes=hosted,
        processes=run.coordinator.processes,
        inputs=input_digests(run),
        exact_values_stay_local=declares(run.algorithm, "exact_values_stay_local"),
        t=run.t,
    )


def record_resume(run: Run, extend: int = 0) -> None:
    """Record that a run continues, for `extend` rounds more than before, and remove what was recorded at its end."""
    facts = run.task.ledger.facts
    recorded = facts.read()
    more = [{"time": utc_now(), "round": run.t, "rounds": extend}] if extend else []
    facts.remove(*_END)
    facts.write(starts=[*recorded["starts"], _start(run.t)], extensions=[*recorded["extensions"], *more])


def record_end(ledger: Ledger, rounds: int, stopped: str | None, *, models_released: bool = False) -> None:
    """Record how a run has ended, with a digest of all releases.

    `models_released` is whether the guarantee covers the models, so that anyone may know the digests of their files.
    """
    ledger.facts.write(
        ended=utc_now(),
        rounds=rounds,
        stopped=stopped,
        releases=len(ledger),
        releases_digest=ledger.facts.releases_digest(),
        models_released=models_released,
        files={},
    )


def record_files(ledger: Ledger, noise: Noise, folder: Path, files: Iterable[str]) -> None:
    """Record digests of files in the folder of a run, of those that exist."""
    facts = ledger.facts.read()
    released = facts.get("models_released") is True
    found = {
        name: file_digest(folder / name, noise, models_released=released) for name in files if (folder / name).is_file()
    }
    ledger.facts.write(files={**facts.get("files", {}), **found})


def file_digest(path: Path, noise: Noise | None, *, models_released: bool) -> str:
    """Digest of a file; with the noise's key for digests, if the file may contain what was never released."""
    data = path.read_bytes()
    if not is_keyed(path.name, models_released=models_released):
        return _digest(data)
    assert noise is not None, "a keyed digest needs a key"
    return noise.keyed_digest(data)


def is_keyed(name: str, *, models_released: bool) -> bool:
    """Whether the digest of a file needs a secret key: the file may contain what was never released."""
    return name == storage.CHECKPOINT_FILE or (name in _MODEL_FILES and not models_released)


def extended_rounds(ledger: Ledger, rounds: int) -> int:
    """The rounds of a run of `rounds` rounds with its extensions so far."""
    return rounds + sum(int(each["rounds"]) for each in ledger.facts.read().get("extensions", []))


def check_resume(run: Run, folder: Path) -> None:
    """Refuse to resume a run with other settings, records or processes than its ledger records."""
    facts, ledger = run.task.ledger.facts.read(), folder / storage.LEDGER_FILE
    if facts.get("format") != FACTS_FORMAT:
        raise TacitError(f"{ledger} was written by another version of Tacit, which can resume it")
    processes = facts["processes"]
    if processes != run.coordinator.processes:
        how = f"with --workers {processes}" if processes > 1 else "without --workers"
        plural = "es" if processes > 1 else ""
        raise TacitError(f"{folder} was written by {processes} process{plural}: resume it {how}")
    changed = settings_differences({**facts["config"], "device": "any"}, {**run.config, "device": "any"})
    if changed:
        more = any(line.startswith("rounds is ") for line in changed)
        hint = ". To continue a run beyond its rounds, use --extend ROUNDS (Python: extend=)" if more else ""
        raise TacitError(f"{folder} contains another run: {'; '.join(changed)}{hint}")
    check_intact(run.task.ledger, ledger)
    drawn, draws = facts.get("generator", CPU_GENERATOR), generator_of(run.task.device)
    if drawn != draws:  # steps after the checkpoint would be released again with other noise
        raise TacitError(
            f"{folder} has noise from {drawn}, and a run on {run.task.device} draws from {draws}: resume "
            "it on the kind of device on which it began"
        )
    inputs = different_inputs(facts["inputs"], input_digests(run))
    if inputs:
        raise TacitError(
            f"{folder} cannot be resumed: the {inputs} differ from those of the run. Restore the original files, or "
            "start a new run in another folder"
        )


def check_intact(ledger: Ledger, path: Path) -> None:
    """Refuse to continue with a ledger from which releases were removed, or in which they were changed."""
    facts, recorded = ledger.facts, ledger.facts.read().get("releases_digest")
    changed = facts.first_changed_mark() is not None or not facts.has_intact_vectors()
    if changed or (recorded is not None and recorded != facts.releases_digest()):
        raise TacitError(f"{path} was changed: its releases are not those of the run. Restore the ledger to resume.")


def different_inputs(recorded: Mapping[str, str], found: Mapping[str, str]) -> str:
    """The names of the inputs of a run that are not as recorded, as an enumeration; empty if all are.

    >>> different_inputs({"shards": "1", "test records": "2", "training records": "3"}, {})
    'shards, test records and training records'
    """
    names = [name for name in sorted(recorded) if found.get(name) != recorded[name]]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def input_digests(run: Run) -> dict[str, str]:
    """Digests of what a run reads: records, shards, graph, and files of the user's own parts."""
    return {
        **record_digests(run.task),
        **feature_digests(run.task),
        "links of the graph": weights_digest(run.network.graph),
        **code_digests(run.config),
    }


def record_digests(task: Task) -> dict[str, str]:
    """Digests of the records and shards of the hosted nodes, and of their features.

    Only the holder of a secret key can test a guess of the records.
    """
    data, private, shards = task.data, task.data.private, [task.nodes, task.sizes, *task.shards]
    arrays = {
        "training records": [data.raw[0].numpy(), data.y.numpy(), *([] if private is None else [private.train])],
        "test records": [data.raw[1].numpy(), data.test_y.numpy(), *([] if private is None else [private.test])],
        "shards": [np.concatenate(shards).astype(np.int64)],
    }
    digests = {
        name: task.noise.keyed_digest(*(part for array in each for part in _described(array)))
        for name, each in arrays.items()
    }
    # What defines the features is public. With others, a repeated round would release other values with the same noise.
    return digests if data.features is None else {**digests, "features": data.features.description.digest}


def feature_digests(task: Task) -> dict[str, str]:
    """The digest of what defines the features, if the records have any."""
    features = task.data.features
    return {} if features is None else {"features": features.description.digest}


def utc_now() -> str:
    """The time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _described(array: np.ndarray[Any, Any]) -> tuple[bytes, memoryview]:
    return f"{array.shape} {array.dtype}".encode(), np.ascontiguousarray(array).data


def code_digests(config: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the files of the user's own parts."""
    names = {kind: str(config.get(kind, {}).get("name", "")) for kind in PART_SECTIONS}
    for number, feature in enumerate(config.get("data", {}).get("features") or (), 1):
        names[f"feature {number}"] = str(feature)
    paths = {kind: Path(name.rpartition(":")[0]) for kind, name in names.items() if ".py:" in name}
    return {f"contents of the file of the {kind}": _digest(path.read_bytes()) for kind, path in paths.items()}


def _start(t: int) -> dict[str, Any]:
    versions = {"tacit": version("tacit"), "torch": torch.__version__, "python": platform.python_version()}
    return {"time": utc_now(), "round": t, **versions}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
