"""audit.json in a run folder: the latest result of each kind of audit of the run's config."""

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

AUDIT_FILE = "audit.json"


@dataclass(frozen=True)
class SavedAudits:
    """The audit of the method in many trials, and the audit of one whole run; None if there was none."""

    trials: TrialsAudit | None = None
    one_run: OneRunAudit | None = None

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: Path) -> SavedAudits:
        """
        >>> SavedAudits.parse({"one_run": {"lower": 1.0}}, Path("run/audit.json"))
        Traceback (most recent call last):
        tacit.errors.TacitError: run/audit.json: one_run.algorithm is missing. Delete the file and audit again.
        """
        try:
            return TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            raise TacitError(f"{invalid(str(where), error)}. Delete the file and audit again.") from None

    @classmethod
    def read(cls, folder: Path) -> SavedAudits:
        """The audits of the run in `folder`."""
        path = folder / AUDIT_FILE
        return cls.parse(storage.read_table(path), path) if path.is_file() else cls()

    def including(self, result: AuditResult) -> SavedAudits:
        """These results with `result` in place of an earlier one of its kind."""
        if isinstance(result, OneRunAudit):
            return replace(self, one_run=result)
        assert isinstance(result, TrialsAudit)
        return replace(self, trials=result)

    def write(self, folder: Path) -> None:
        kinds = {"trials": self.trials, "one_run": self.one_run}
        storage.write_json(folder / AUDIT_FILE, {kind: each.as_dict() for kind, each in kinds.items() if each})
