"""The file of the measurements: every finished cell is saved at once, and an interrupted run continues."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


class Store:
    """The measurements of one run, in a JSON file.

    Args:
        path: The file. A finished run, or one with other settings, is replaced when a new run begins.
        settings: What cells of one run have in common, for example the number of threads.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.previous: dict[str, Any] = self.content.get("cells", {})
        if self.content.get("settings") != settings:
            self.content, self.previous = {}, {}
        self.settings = settings

    @property
    def cells(self) -> dict[str, Any]:
        cells: dict[str, Any] = self.content["cells"]
        return cells

    @property
    def is_unfinished(self) -> bool:
        return bool(self.content) and not self.content["finished"]

    def begin(self) -> None:
        """Begin a new run, without cells."""
        self.content = {
            "settings": self.settings,
            "machine": machine(self.settings["threads"]),
            "versions": versions(),
            "began": now(),
            "finished": False,
            "cells": {},
        }

    def has(self, key: str) -> bool:
        """Return whether the cell was measured in this run. Failed cells are measured again."""
        return key in self.cells and "reason" not in self.cells[key]

    def save(self, key: str, found: dict[str, Any], spent: float) -> None:
        """Add a cell and write the file."""
        self.cells[key] = {**found, "spent": spent, "at": now()}
        self.write()

    def finish(self, keys: list[str]) -> None:
        """Put the cells into the order of `keys`. With all of them the run is finished."""
        self.content["cells"] = {key: self.cells[key] for key in keys if key in self.cells}
        self.content["finished"] = len(self.cells) == len(keys)
        self.write()

    def write(self) -> None:
        """Write the file; an interruption leaves the one before."""
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1) + "\n")
        part.replace(self.path)

    def predicted(self, key: str, cost: float) -> float:
        """Return the seconds that a cell took the last time, or the given ones."""
        return float(self.previous.get(key, {}).get("spent", cost))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine(threads: int) -> str:
    """Describe the machine, and how time is measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    clock = "times are CPU times" if threads == 1 else f"load before the run {os.getloadavg()[0]:.1f}"
    used = f"{os.cpu_count()} cores, of which each contender used {threads}; {clock}"
    return f"{name}, {used}; Python {platform.python_version()}"


def versions() -> dict[str, str]:
    """Return the versions of Tacit and of what it is compared with in the same environment."""
    found = {}
    for package in ("tacit", "torch", "numpy", "opacus"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
