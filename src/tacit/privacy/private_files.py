"""Read and write single files that only their owner may read, with errors that name the file."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.errors import TacitError


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file; raise `TacitError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise TacitError(f"Cannot read {path}: {error.strerror}") from None


def write_private_file(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all.

    The data go to a new file with mode 600, are synced to disk, and replace `path` in one step. No other user can read
    them at any moment.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TacitError(f"Cannot write {path}: {error.strerror or error}") from None


def sync_folder(folder: Path) -> None:
    """Make new and removed file names durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
