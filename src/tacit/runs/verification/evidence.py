"""The content of a run folder as it is verified: nothing in it is trusted, and nothing is changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tacit.errors import TacitError
from tacit.privacy import Ledger, Mark, Noise, Release, read_ledger
from tacit.runs import storage
from tacit.runs.observer import Row
from tacit.runs.recorded_facts import RecordedFacts
from tacit.runs.secret_state import own_digests

T = TypeVar("T")
_SUFFIXES = (".json", ".csv", ".toml", ".safetensors")


@dataclass
class Findings:
    """What a verification has found: differences, what it has checked, and what it could not check."""

    differences: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def expect(self, holds: bool, difference: str) -> bool:
        """Note a difference unless something holds; return whether it does."""
        if not holds:
            self.differences.append(difference)
        return holds


@dataclass(frozen=True)
class LedgerEvidence:
    """The ledger of one process, read into memory; `folder` is that of the process, `name` its path in the run's."""

    folder: Path
    name: str
    ledger: Ledger
    facts: RecordedFacts
    releases: list[Release]
    marks: list[Mark]
    intact: bool
    digest: str

    @property
    def prefix(self) -> str:
        """How the files of the process are named: "" in the folder of the run, "rank-1/" in that of rank 1."""
        return self.name.removesuffix(storage.LEDGER_FILE)

    @property
    def digests(self) -> Noise | None:
        """Noise that makes the keyed digests of the run; None if their key is secret and not here."""
        facts = self.facts
        return Noise.from_seed(facts.seed or 0) if facts.simulated else own_digests(facts.run, facts.digest_check)


@dataclass(frozen=True)
class Evidence:
    """All files of a run that can be read; None where a file cannot."""

    folder: Path
    ledgers: list[LedgerEvidence]
    config: dict[str, Any] | None
    result: dict[str, Any] | None
    history: list[Row] | None

    @classmethod
    def read(cls, folder: Path, findings: Findings) -> Evidence:
        """Read a folder; a file that is missing or cannot be read is a difference.

        Raises:
            TacitError: `folder` does not look like the folder of a run at all.
        """
        files = (storage.CONFIG_FILE, storage.LEDGER_FILE, storage.RESULT_FILE, storage.HISTORY_FILE)
        if not any((folder / name).exists() for name in files):
            raise TacitError(f"{folder} is not a run folder: it has no {storage.LEDGER_FILE}")
        storage.refuse_learned_graphs(folder)
        paths = storage.ledger_files(folder)
        findings.expect((folder / storage.LEDGER_FILE) in paths, f"{storage.LEDGER_FILE} is missing")
        ledgers = [read_file(findings, path, partial(_read_ledger, folder)) for path in paths]
        return cls(
            folder,
            sorted((each for each in ledgers if each is not None), key=lambda each: each.facts.nodes),
            read_file(findings, folder / storage.CONFIG_FILE, storage.read_table),
            read_file(findings, folder / storage.RESULT_FILE, storage.read_table),
            read_file(findings, folder / storage.HISTORY_FILE, storage.read_history),
        )

    @property
    def facts(self) -> RecordedFacts:
        """The facts in the first ledger."""
        return self.ledgers[0].facts

    @property
    def is_site(self) -> bool:
        """Whether this is the folder of a site, which hosts one node of the network."""
        return bool((self.result or {}).get("site"))

    @property
    def digest(self) -> str:
        """Digest of everything that is verified, and with which keys."""
        keyed = [each.digests is not None for each in self.ledgers]
        digest = hashlib.blake2b(json.dumps([[each.digest for each in self.ledgers], keyed]).encode())
        for part in self.ledgers:
            for path in sorted(path for path in part.folder.iterdir() if path.suffix in _SUFFIXES):
                digest.update(f" {path.name} ".encode() + path.read_bytes())
        return digest.hexdigest()


def _read_ledger(folder: Path, path: Path) -> LedgerEvidence:
    name = str(path.relative_to(folder))
    ledger = read_ledger(path)
    return LedgerEvidence(
        path.parent,
        name,
        ledger,
        RecordedFacts.read(ledger, name),
        list(ledger.releases()),
        ledger.facts.marks(),
        ledger.facts.has_intact_vectors(),
        ledger.facts.content_digest(),
    )


def read_file(findings: Findings, path: Path, read: Callable[[Path], T], prefix: str = "") -> T | None:
    """Read a file; return None and note a difference if it is missing or cannot be read."""
    if not path.is_file():
        ended = ": the run has not ended" if path.name == storage.RESULT_FILE else ""
        findings.differences.append(f"{prefix}{path.name} is missing{ended}")
        return None
    try:
        return read(path)
    except TacitError as error:
        findings.differences.append(str(error).replace(f"{path.parent}/", prefix))
    except Exception as error:  # a file that someone has changed may contain anything
        findings.differences.append(f"{prefix}{path.name} cannot be read: {type(error).__name__}")
    return None
