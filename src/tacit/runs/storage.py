"""Reading and writing the files of a run. A file is written completely or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import tomli_w
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tacit.errors import TacitError

CONFIG_FILE, LEDGER_FILE = "config.toml", "ledger.sqlite"
HISTORY_FILE, TRACE_FILE = "history.csv", "trace.csv"
MODEL_FILE, MODELS_FILE = "model.safetensors", "models.safetensors"  # the mean model; the models of all nodes
CHECKPOINT_FILE = "checkpoint.safetensors"
RESULT_FILE, NODES_FILE, GRAPH_FILE, THREATS_FILE = "result.json", "nodes.csv", "graph.json", "threats.json"
SIGNATURE_FILE = "signature.json"
RUN_FILES = (HISTORY_FILE, TRACE_FILE, MODEL_FILE, MODELS_FILE, CHECKPOINT_FILE, RESULT_FILE)
REPORT_FILES = (NODES_FILE, GRAPH_FILE, THREATS_FILE)
RESULT_FILES = (RESULT_FILE, SIGNATURE_FILE, *REPORT_FILES)  # written at the end of a run
VERIFIED_FILES = (*RUN_FILES, *REPORT_FILES)  # the ledger records digests of them
_FORMAT = "tacit-checkpoint-1"


def write(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace `path` by `data` atomically: a full disk or a crash leaves the old file.

    If it is `durable`, so does a power failure.
    """
    with _replacing(path) as part:
        part.write_bytes(data)
        if durable:
            with part.open("rb") as file:
                os.fsync(file.fileno())


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Replace `path` by the parts, one after the other, atomically. If a part cannot be made, nothing is replaced."""
    with _replacing(path) as part, part.open("wb") as file:
        file.writelines(parts)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` at the end, or is removed after an error."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        raise TacitError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    write(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_history(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV table; an empty cell is None."""
    table = io.StringIO()
    if rows:
        writer = csv.DictWriter(table, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    write(path, table.getvalue().encode())


def read_history(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open() as file:
            return [{key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(file)]
    except (OSError, ValueError, TypeError) as error:
        raise TacitError(f"{path} cannot be read as the history of a run: {error}") from None


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    write(path, tomli_w.dumps(dict(config)).encode())


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the tensors of a state, with the other facts needed to resume exactly."""
    metadata = {"format": _FORMAT, "facts": json.dumps(dict(facts))}
    # Copies, since safetensors refuses tensors that share memory.
    data = safetensors.torch.save({k: v.cpu().contiguous().clone() for k, v in tensors.items()}, metadata)
    write(path, data, durable=True)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if not path.is_file():
        raise TacitError(f"{path} does not exist: give the folder of a stopped run")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise TacitError(f"{path} was written by another program and is not a checkpoint of a run")
            return {key: file.get_tensor(key) for key in file.keys()}, json.loads(metadata["facts"])  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise TacitError(f"{path} cannot be read as a checkpoint: {error}") from None


def write_models(path: Path, models: Tensor) -> None:
    write(path, safetensors.torch.save({"models": models.cpu().contiguous()}))


def refuse_learned_graphs(folder: Path) -> None:
    """Raise a TacitError if `folder` was written by `tacit learn-graph` or by a site that learns a graph."""
    if not (folder / CONFIG_FILE).exists() and (folder / RESULT_FILE).is_file():
        try:
            result = read_table(folder / RESULT_FILE)
        except (TacitError, RecursionError):  # someone may have changed it
            return
        if {"clients", "vertices"} <= set(result):
            raise TacitError(f"{folder} contains learned graphs: only the folders of training runs can be verified")


def read_table(path: Path) -> dict[str, Any]:
    """The content of a TOML or JSON file that contains one table."""
    try:
        text = path.read_text(encoding="utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise TacitError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise TacitError(f"{path} cannot be read: expected an object with keys, got {type(value).__name__}")
    return value


def ledger_files(folder: Path) -> list[Path]:
    """The ledgers of all processes of a run that are in its folder."""
    return [path for path in (folder / LEDGER_FILE, *sorted(folder.glob(f"rank-*/{LEDGER_FILE}"))) if path.is_file()]


def check_new_folder(path: Path) -> None:
    """Refuse a folder that is not empty: every run has its own."""
    try:
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise TacitError(f"cannot read the folder {path}: {error.strerror}") from None
    if taken:
        raise TacitError(f"{path} is not empty: choose another folder, or resume the run in it")


def create_folder(path: Path, *, private: bool = False) -> list[Path]:
    """Create a folder and its parents; return `path` and the parents that did not exist, innermost first.

    Only the owner can read a new folder that is `private`.
    """
    check_new_folder(path)
    created = [path, *(parent for parent in path.parents if not parent.exists())]
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    except OSError as error:
        raise TacitError(f"cannot create the folder {path}: {error.strerror or error}") from None
    return created


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files from a folder, as far as they exist."""
    for name in names:
        (folder / name).unlink(missing_ok=True)


def unused_folder(parent: Path, name: str) -> Path:
    """Return `parent/name`, or the first of `name-2`, `name-3`, … that does not exist."""
    candidate, number = parent / name, 2
    while candidate.exists():
        candidate, number = parent / f"{name}-{number}", number + 1
    return candidate


def _number(cell: str) -> float | None:
    if cell == "":
        return None
    return int(cell) if cell.lstrip("-").isdigit() else float(cell)
