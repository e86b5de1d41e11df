"""Files of a run. Each is written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import tomli_w
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tacit.errors import TacitError

_FORMAT = "tacit-checkpoint-1"


def write(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a full disk or a crash leaves what was there before."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TacitError(f"cannot write {path}: {error.strerror or error}") from None


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV table that pandas reads; an empty cell means there is no such number."""
    table = io.StringIO()
    if rows:
        writer = csv.DictWriter(table, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    write(path, table.getvalue().encode())


def read_history(path: Path) -> list[dict[str, Any]]:
    with path.open() as file:
        rows = [{key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(file)]
    return rows


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    write(path, tomli_w.dumps(dict(config)).encode())


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """The state's tensors, with what else is needed to go on exactly."""
    metadata = {"format": _FORMAT, "facts": json.dumps(dict(facts))}
    write(path, safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()}, metadata))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if not path.is_file():
        raise TacitError(f"there is no checkpoint at {path}: give the folder of a run that was stopped")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise TacitError(f"{path} is not a checkpoint of this program (format {metadata.get('format', 'unknown')!r})")
            return {key: file.get_tensor(key) for key in file.keys()}, json.loads(metadata["facts"])  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise TacitError(f"{path} cannot be read as a checkpoint: {error}") from None


def write_models(path: Path, models: Tensor) -> None:
    write(path, safetensors.torch.save({"models": models.contiguous()}))


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TacitError(f"cannot make the folder {path}: {error.strerror or error}") from None


def free_folder(parent: Path, name: str) -> Path:
    """`parent/name`, or the first of `name-2`, `name-3`, … that does not exist."""
    candidate, number = parent / name, 2
    while candidate.exists():
        candidate, number = parent / f"{name}-{number}", number + 1
    return candidate


def _number(cell: str) -> Any:
    if cell == "":
        return None
    value = float(cell)
    return int(value) if value.is_integer() and "." not in cell and "e" not in cell else value
