"""Checks of the files of a run against its ledger: config, result, history, checkpoint, nodes, threats, digests."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.runs import storage
from tacit.runs.canonical import settings_differences, settings_digest
from tacit.runs.prediction import ModelFile
from tacit.runs.run_facts import file_digest, is_keyed
from tacit.runs.verification.accounted_privacy import AccountedPrivacy
from tacit.runs.verification.evidence import Evidence, Findings, LedgerEvidence, read_file

_TOLERANCE = 1e-6  # by which an ε computed elsewhere may differ


def check_config(evidence: Evidence, findings: Findings) -> None:
    """config.toml must be the config in every ledger."""
    for part in evidence.ledgers:
        facts = part.facts
        findings.expect(
            settings_digest(facts.config) == facts.config_digest,
            f"{part.name}: the config was changed: its digest is not the one beside it",
        )
        findings.expect(
            facts.config == evidence.facts.config and facts.delta == evidence.facts.delta,
            f"{part.name} belongs to another run than {evidence.ledgers[0].name}",
        )
        delta = facts.config.get("privacy", {}).get("delta", facts.delta)
        findings.expect(same(delta, facts.delta), f"{part.name}: δ is {facts.delta}, but the config has {delta}")
    if evidence.config is not None:
        for line in settings_differences(evidence.facts.config, evidence.config):
            findings.differences.append(f"{storage.CONFIG_FILE}: {line}")


def check_result(evidence: Evidence, found: AccountedPrivacy, findings: Findings) -> None:
    """result.json must state what the ledger gives."""
    result, facts = evidence.result, evidence.facts
    if result is None:
        return
    expected: dict[str, Any] = {"rounds": facts.rounds, "simulated": facts.simulated, "stopped": facts.stopped}
    expected["processes"] = facts.processes
    if facts.ranges and facts.rounds:  # an interrupted round 0 may have released them already
        expected["ranges"] = facts.ranges
    if facts.prepared and facts.rounds:
        expected["prepared"] = sorted(facts.prepared)
    if not evidence.is_site:
        expected["nodes"] = sum(part.facts.nodes[1] for part in evidence.ledgers)
    _compare(storage.RESULT_FILE, expected, result, findings)
    stated: Any = result.get("privacy")
    if findings.expect(isinstance(stated, dict), f"{storage.RESULT_FILE} has no privacy statement"):
        _compare(f"{storage.RESULT_FILE}: privacy", found.statement, stated, findings)


def check_history(evidence: Evidence, found: AccountedPrivacy, findings: Findings) -> None:
    """Every row must state the ε of the releases until then, and the last row must be that of the result."""
    name, rows, result = storage.HISTORY_FILE, evidence.history, evidence.result
    if rows is None or result is None:
        return
    rounds: list[Any] = [row.get("round") for row in rows]
    ascending = all(isinstance(t, int) for t in rounds) and rounds == sorted(set(rounds))
    if not findings.expect(ascending, f"{name}: the rounds are not ascending whole numbers"):
        return
    marks = {mark.round for mark in evidence.ledgers[0].marks}
    for t in sorted(marks - set(rounds)):
        findings.differences.append(f"{name}: the evaluation after round {t} is missing")
    for row in rows:
        t = row["round"]
        if t not in marks:
            complete = found.guaranteed is None or (row.get("guaranteed") or 0.0) <= found.guaranteed * (1 + _TOLERANCE)
            ahead = not evidence.facts.simulated  # after a crash, the ledger can be ahead of a repeated evaluation
            findings.expect(ahead and complete, f"{name}: the ledger has no evaluation after round {t}")
        else:
            _compare(f"{name}: round {t}", found.at_round(t), row, findings)
    last, end = rounds[-1] if rounds else 0, result.get("rounds")
    wrong = not isinstance(end, int) or last > end or (last < end and result.get("stopped") is None)
    findings.expect(not wrong, f"{name} ends after round {last}, but {storage.RESULT_FILE} after round {end}")
    if rounds and last == end:
        source = f"the last row of {name} has"
        measured = {key: rows[-1].get(key) for key in ("accuracy", "loss")}
        _compare(storage.RESULT_FILE, measured, result, findings, source=source)
        metrics: Any = result.get("metrics", {})
        if findings.expect(isinstance(metrics, dict), f"{storage.RESULT_FILE}: metrics is not a table"):
            repeated = {key: value for key, value in rows[-1].items() if key in metrics}
            _compare(f"{storage.RESULT_FILE}: metrics", repeated, metrics, findings, source=source)


def check_checkpoint(evidence: Evidence, findings: Findings) -> None:
    """The checkpoint must be that of the last round, with as many steps as the ledger. A site has it in its journal."""
    for part in () if evidence.is_site else evidence.ledgers:
        path = part.folder / storage.CHECKPOINT_FILE
        read = read_file(findings, path, storage.read_checkpoint, part.prefix)
        if read is None:
            continue
        stated, steps = read[1], part.ledger.steps
        expected = {"t": part.facts.rounds, "processes": part.facts.processes}
        if part.facts.stopped is None:  # a refused or failed round can leave some of its releases in the ledger
            expected["steps"] = steps
        _compare(f"{part.prefix}{path.name}", expected, stated, findings)
        findings.expect(
            isinstance(stated.get("steps"), int) and stated["steps"] <= steps,
            f"{part.name} has {steps} steps, but the run has made {stated.get('steps')}",
        )


def check_nodes(evidence: Evidence, found: AccountedPrivacy, findings: Findings) -> None:
    """nodes.csv must have the ε and the sampling rate of every node."""
    path = evidence.folder / storage.NODES_FILE
    rows = read_file(findings, path, storage.read_history) if path.exists() else None
    if rows is None:
        return
    nodes = [node for part in evidence.ledgers for node in range(part.facts.nodes[0], sum(part.facts.nodes))]
    if not findings.expect(
        [row.get("node") for row in rows] == nodes, f"{path.name}: the nodes are not those of the run"
    ):
        return
    for row, spent in zip(rows, found.per_node, strict=True):
        guaranteed = spent if math.isfinite(spent) else None
        _compare(f"{path.name}: node {row['node']}", {"guaranteed": guaranteed}, row, findings)


def check_threats(evidence: Evidence, found: AccountedPrivacy, findings: Findings) -> None:
    """threats.json must have the ε of the run against an eavesdropper, and none above it."""
    path = evidence.folder / storage.THREATS_FILE
    table = read_file(findings, path, storage.read_table) if path.exists() else None
    bounds: Any = (table or {}).get("bounds")
    if table is None or not findings.expect(isinstance(bounds, list) and bool(bounds), f"{path.name} has no bounds"):
        return
    first, whole = dict(bounds[0]), found.guaranteed
    _compare(path.name, {"epsilon": whole, "delta": evidence.facts.delta}, first, findings)
    others = [each.get("epsilon") for each in bounds[1:]] + [cell for row in table.get("pairs") or [] for cell in row]
    too_large = whole is not None and any(each is not None and each > whole * (1 + _TOLERANCE) for each in others)
    findings.expect(not too_large, f"{path.name} has an ε above that of an eavesdropper on every link")


def check_model(evidence: Evidence, found: AccountedPrivacy, findings: Findings) -> None:
    """model.safetensors must be that of the last round, and state the ε of the run only if it covers the models."""
    path, covered = evidence.folder / storage.MODEL_FILE, evidence.facts.models_released
    file = read_file(findings, path, ModelFile.read) if path.exists() else None
    if file is None:
        return
    stated = file.description.privacy
    expected = {"covered": covered, "guaranteed": found.guaranteed if covered else None, "delta": evidence.facts.delta}
    expected["simulated"] = evidence.facts.simulated
    _compare(path.name, {"rounds": evidence.facts.rounds}, file.description.model_dump(), findings)
    columns = (file.description.table or {}).get("columns", {})
    for name, released in (evidence.facts.ranges if evidence.facts.rounds else {}).items():
        _compare(f"{path.name}: column {name}", {"released": released}, columns.get(name, {}), findings)
    _compare(f"{path.name}: privacy", expected, stated.model_dump(), findings)
    _check_preparation(evidence, file, findings)
    may_cover = found.guaranteed is not None and found.statement.get("covers_models", True) is True
    findings.expect(
        may_cover or not covered,
        f"{storage.LEDGER_FILE}: the guarantee does not cover the models, but the ledger records that it does",
    )


def _check_preparation(evidence: Evidence, file: ModelFile, findings: Findings) -> None:
    """The model file must prepare records with what the run has computed from its released statistics."""
    part = evidence.ledgers[0]
    recorded = part.facts.prepared if part.facts.rounds else {}
    found = {} if file.preparation is None else dict(file.preparation.named_buffers())
    try:
        expected = {name: part.ledger.facts.read_vector(key) for name, key in recorded.items()}
    except TacitError as error:
        findings.differences.append(str(error))
        return
    agree = found.keys() == expected.keys() and all(
        np.array_equal(found[name].double().flatten().numpy(), expected[name]) for name in found
    )
    findings.expect(agree, f"{storage.MODEL_FILE}: records are prepared with other statistics than the run released")


def check_digests(evidence: Evidence, findings: Findings) -> None:
    """Every file must be the one that the run wrote."""
    for part in evidence.ledgers:
        digests = part.digests
        for name in storage.VERIFIED_FILES:
            _check_digest(part, name, digests, findings)


def _check_digest(part: LedgerEvidence, name: str, digests: Noise | None, findings: Findings) -> None:
    path, shown, recorded = part.folder / name, f"{part.prefix}{name}", part.facts.files.get(name)
    if not path.is_file():
        missing = recorded is not None and not any(line.startswith(f"{shown} is") for line in findings.differences)
        findings.expect(not missing, f"{shown} is missing")
    elif recorded is None:
        findings.expect(part.facts.ended is None, f"{shown} was not written by the run")
    elif is_keyed(name, models_released=part.facts.models_released) and digests is None:
        findings.unchecked.append(f"{shown}: its digest can be computed only with a secret key of the run's owner")
    else:
        found = file_digest(path, digests, models_released=part.facts.models_released)
        findings.expect(found == recorded, f"{shown} was changed after the run had ended")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, numbers up to the rounding of another machine."""
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-12) if numbers else bool(one == other)


def _compare(
    where: str,
    expected: Mapping[str, Any],
    stated: Mapping[str, Any],
    findings: Findings,
    source: str = "the ledger gives",
) -> None:
    for key, value in expected.items():
        text = f"{where}: {key} is {_shown(stated.get(key))}, but {source} {_shown(value)}"
        findings.expect(same(stated.get(key), value), text)


def _shown(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
