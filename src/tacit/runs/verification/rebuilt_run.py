"""A run that is built once more from the config in its ledger, to check what it should have released."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.graphs import weights_digest
from tacit.privacy import Privacy, Release, plan, plan_of_round
from tacit.runs.build import from_config
from tacit.runs.config import Config, saved_settings
from tacit.runs.config_sections import PART_SECTIONS, PYTHON_OBJECT_PREFIX
from tacit.runs.metrics import metric
from tacit.runs.privacy_meter import PrivacyMeter
from tacit.runs.run import Run
from tacit.runs.run_facts import different_inputs, feature_digests, record_digests
from tacit.runs.verification.evidence import Evidence, Findings, LedgerEvidence

_TOLERANCE = 1e-6  # by which noise that was calibrated elsewhere may differ


@dataclass(frozen=True)
class RebuiltRun:
    """The run of a config, and the privacy meter of each of its processes on the ledger of that process."""

    run: Run
    meters: list[PrivacyMeter]

    @classmethod
    def build(cls, evidence: Evidence) -> RebuiltRun | str:
        """Build the run, or return the reason why that is not possible here.

        Code that a config names is not executed: the folder may come from anyone.
        """
        config, parts = evidence.facts.config, evidence.ledgers
        if evidence.is_site:
            return "a site does not have the whole network"
        if reason := _own_part(config):
            return reason
        digests = parts[0].digests
        if digests is None:
            return "the digests of its records can be computed only with a secret key of the run's owner"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                settings = {**saved_settings(config), "noise": "simulated", "device": "cpu"}
                run = from_config(Config.parse(settings, "the config in the ledger"))
        except (TacitError, OSError) as error:
            return str(error).splitlines()[0]
        run.task.noise = digests  # the run is never started
        blocks = [np.arange(first, first + count) for first, count in (part.facts.nodes for part in parts)]
        if not np.array_equal(np.concatenate(blocks), run.task.nodes):
            return "the ledgers are not those of all nodes"
        meters = [cls._meter(run, part, rows) for part, rows in zip(parts, blocks, strict=True)]
        for part, meter in zip(parts, meters, strict=True):
            links = {"links of the graph": weights_digest(run.network.graph)}
            found = {**record_digests(meter.task), **feature_digests(meter.task), **links}
            if different := different_inputs(part.facts.inputs, found):
                return f"the {different} differ from those of the run; to check it, restore the original files"
        return cls(run, meters)

    @staticmethod
    def _meter(run: Run, part: LedgerEvidence, rows: np.ndarray[Any, np.dtype[np.int64]]) -> PrivacyMeter:
        task = run.task
        if len(rows) < task.n:
            task = task.host(rows.tolist(), part.ledger)
        task.ledger = part.ledger
        reads_records = any(metric(name).reads_records for name in run.config["measure"])
        return PrivacyMeter(task, run.algorithm, run.delta, reads_records)

    def statements(self, rounds: int) -> list[Privacy]:
        """The privacy statement of each process."""
        return [meter.spent(rounds) for meter in self.meters]

    def claimed(self, rounds: int) -> float | None:
        """The claim of the paper after so many rounds, at the process with the largest."""
        return largest([meter.claim(rounds) for meter in self.meters])

    def check_plan(self, evidence: Evidence, findings: Findings) -> None:
        """The releases in each ledger must be those that the algorithm plans: all of them, with the same noise."""
        facts, privacy = evidence.facts, self.run.algorithm.privacy
        for part, meter in zip(evidence.ledgers, self.meters, strict=True):
            nodes, sampling = meter.task.nodes, privacy.sampling(meter.task)
            planned = plan(privacy, facts.rounds or 0, sampling, nodes)
            if not planned and part.releases:
                findings.unchecked.append(f"plan: {self.run.algorithm.title} does not plan its releases")
                return
            stopped, last = facts.stopped is not None, facts.rounds or 0
            partial = plan_of_round(privacy, last, sampling, nodes) if stopped else []
            _check_part(part, planned, partial, findings)
        findings.checked.append("the releases are those that the config plans, with the same noise and sampling")


def largest(values: Sequence[float | None]) -> float | None:
    """The largest value; None if one of them is None."""
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _check_part(part: LedgerEvidence, planned: list[Release], partial: list[Release], findings: Findings) -> None:
    """Compare a ledger with the planned releases, and those of a last round that may be incomplete."""
    required = {(each.step, each.purpose): each for each in planned}
    allowed = required | {(each.step, each.purpose): each for each in partial}
    made = {(each.step, each.purpose): each for each in part.releases}
    lists = {
        "planned releases are missing": [key for key in required if key not in made],
        "releases are not planned": [key for key in made if key not in allowed],
        "releases have other noise or other sampling than planned": [
            key for key in made if key in allowed and not _alike(made[key], allowed[key])
        ],
    }
    for what, keys in lists.items():
        if keys:
            step, purpose = min(keys)
            findings.differences.append(f'{part.name}: {what} ({len(keys)}, the first is "{purpose}" of step {step})')


def _alike(one: Release, other: Release) -> bool:
    kinds = [(each.unit, each.sampling.kind, each.sampling.relation) for each in (one, other)]
    alike = kinds[0] == kinds[1] and one.mechanism.is_same_kind(other.mechanism)
    if not alike or len(one.rates) != len(other.rates):
        return False
    pairs: list[tuple[Any, Any]] = [(one.multipliers, other.multipliers), (one.rates, other.rates)]
    if one.mechanism.name == "paired":  # its multipliers are those against one number of colluders only
        stored = [each.mechanism.to_ledger(len(each.rates)) for each in (one, other)]
        pairs += [(stored[0][key], stored[1][key]) for key in stored[0]]
    shapes = all(np.shape(first) == np.shape(second) for first, second in pairs)
    return shapes and all(np.allclose(*pair, rtol=_TOLERANCE, atol=0.0, equal_nan=True) for pair in pairs)


def _own_part(config: Mapping[str, Any]) -> str:
    """Why a part of the config is not built: it is a Python object, or code in a user's file. Empty if none is."""
    for kind in PART_SECTIONS:
        name = str(config.get(kind, {}).get("name", ""))
        if name.startswith(PYTHON_OBJECT_PREFIX):
            return f"the {kind} was given as a Python object"
        if ".py:" in name:
            return f"the {kind} is in a file of its own ({name}), which is not executed"
    for feature in config.get("data", {}).get("features") or ():
        if ".py:" in str(feature) or str(feature).startswith(PYTHON_OBJECT_PREFIX):
            return f"the feature {feature} is the user's own, which is not executed"
    if ".py:" in (public := str(config.get("data", {}).get("whiten", ""))):
        return f"the public data are in a file of their own ({public}), which is not executed"
    return "" if config else "the run was not built from a config"
