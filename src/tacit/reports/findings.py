"""`audit.json` of a run's folder: what attacks on the run's config found, the latest of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tacit.audit import AuditResult, OneRunAudit, TrialsAudit
from tacit.errors import TacitError
from tacit.registry import invalid
from tacit.runs import storage

AUDIT = "audit.json"


@dataclass(frozen=True)
class Findings:
    """The method attacked in many trials, and a whole run attacked once; None where that was not done."""

    trials: TrialsAudit | None = None
    one_run: OneRunAudit | None = None

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: Path) -> Findings:
        """
        >>> Findings.parse({"one_run": {"lower": 1.0}}, Path("run/audit.json"))
        Traceback (most recent call last):
        tacit.errors.TacitError: run/audit.json: one_run.algorithm is missing: take the file away, and audit again
        """
        try:
            return TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            raise TacitError(f"{invalid(str(where), error)}: take the file away, and audit again") from None

    def including(self, found: AuditResult) -> Findings:
        """These, with `found` in the place of an earlier one of its kind."""
        if isinstance(found, OneRunAudit):
            return replace(self, one_run=found)
        assert isinstance(found, TrialsAudit)
        return replace(self, trials=found)

    def write(self, folder: Path) -> None:
        kinds = {"trials": self.trials, "one_run": self.one_run}
        storage.write_json(folder / AUDIT, {kind: found.as_dict() for kind, found in kinds.items() if found})
