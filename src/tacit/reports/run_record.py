"""Everything that the page of a run shows, read from the run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.privacy import Ledger
from tacit.reports.release_summary import ReleaseSummary, summarise_releases
from tacit.reports.saved_audits import SavedAudits
from tacit.runs import FinishedRun, RecordedFacts, require_files, storage

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class RunRecord(FinishedRun):
    """A finished run with all that its page shows.

    Attributes:
        name: Name of the folder, or of the site.
        nodes: One row per node (nodes.csv).
        graph: The graph's description and layout (graph.json).
        releases: What the nodes released, from the ledgers; empty if some ledgers are on other hosts.
        threats: ε against each adversary (threats.json).
        audits: Results of `tacit audit` on this folder (audit.json).
        facts: What the ledger records about the run; None if the ledger is on another host.
        seeds: The number of runs of which this is the mean; 1 for a run of its own.
        deviations: The standard deviation of each metric over several seeds.
    """

    name: str
    nodes: list[Row] = field(default_factory=list)
    graph: dict[str, Any] = field(default_factory=dict)
    releases: list[ReleaseSummary] = field(default_factory=list)
    threats: dict[str, Any] = field(default_factory=lambda: {"bounds": [], "pairs": None})
    audits: SavedAudits = field(default_factory=SavedAudits)
    facts: RecordedFacts | None = None
    seeds: int = 1
    deviations: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read_more(cls, folder: Path, result: dict[str, Any]) -> dict[str, Any]:
        require_files(folder, storage.NODES_FILE, storage.GRAPH_FILE)
        more = {
            "name": result.get("site") or folder.resolve().name,
            "nodes": storage.read_history(folder / storage.NODES_FILE),
            "graph": storage.read_table(folder / storage.GRAPH_FILE),
            "releases": _read_releases(folder, result.get("processes", 1)),
            "audits": SavedAudits.read(folder),
            "facts": _read_facts(folder),
        }
        if (folder / storage.THREATS_FILE).is_file():
            more["threats"] = storage.read_table(folder / storage.THREATS_FILE)
        return more


def read_records(folders: Sequence[Path]) -> list[RunRecord]:
    """The runs in `folders`. Runs of the same name are named by their folders."""
    runs = [RunRecord.read(folder) for folder in folders]
    names = [run.name for run in runs]
    return [replace(run, name=str(run.folder)) if names.count(run.name) > 1 else run for run in runs]


def _read_releases(folder: Path, processes: int) -> list[ReleaseSummary]:
    """The releases in the ledgers of all processes; nothing if one ledger is missing, since a part would mislead."""
    ledgers = storage.ledger_files(folder)
    if len(ledgers) < processes:
        return []
    return summarise_releases(release for path in ledgers for release in Ledger(path).releases())


def _read_facts(folder: Path) -> RecordedFacts | None:
    """The facts in the first ledger. Whether they are right is for the verification to decide."""
    try:
        return next((RecordedFacts.read(Ledger(path), path.name) for path in storage.ledger_files(folder)), None)
    except TacitError:
        return None
