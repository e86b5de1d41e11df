"""Read and write single files that only their owner may read, with errors that name the file."""

from __future__ import annotations

import os
from contextlib import suppress
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


def create_private_file(path: Path, data: bytes) -> None:
    """Create a file that only its owner can read. If another process creates it at the same time, its file stays."""
    own = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    write_private_file(own, data)
    try:
        with suppress(FileExistsError):
            os.link(own, path)  # unlike a rename, a link never replaces a file
        sync_folder(path.parent)
    except OSError as error:
        raise TacitError(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        own.unlink()


def replace_private_file(path: Path, data: bytes) -> None:
    """Replace a secret file in one step, and overwrite what it contained.

    After a crash the file has the old or the new contents. `erase_leftover` completes the erasure.
    """
    old = _old(path)
    try:
        old.unlink(missing_ok=True)
        os.link(path, old)
        write_private_file(path, data)
        sync_folder(path.parent)
    except OSError as error:
        raise TacitError(f"Cannot write {path}: {error.strerror or error}") from None
    erase_file(old)


def erase_leftover(path: Path) -> None:
    """Erase the old contents of a secret file that a crash within `replace_private_file` has left."""
    erase_file(_old(path))
    erase_file(path.with_name(path.name + ".part"))


def erase_file(path: Path) -> None:
    """Overwrite a file and remove it. Copies in backups and in a disk's spare blocks are out of reach.

    If the file has another name too, only this name is removed.
    """
    try:
        if path.exists():
            if path.stat().st_nlink == 1:
                with path.open("r+b") as file:
                    file.write(bytes(path.stat().st_size))
                    file.flush()
                    os.fsync(file.fileno())
            path.unlink()
            sync_folder(path.parent)
    except OSError as error:
        raise TacitError(f"Cannot erase {path}: {error.strerror or error}") from None


def _old(path: Path) -> Path:
    return path.with_name(path.name + ".old")


def sync_folder(folder: Path) -> None:
    """Make new and removed file names durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
