"""Computed features on disk: of published data sets only, and what was fitted on public records.

Privacy:
    The features of a record reveal as much as the record. Those of a user's own records are therefore never written
    here. All files can be read by their owner only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import write_private_file
from tacit.tasks.data.files import cache

_MAX_BYTES = 4 * 1024**3  # of all cached features; the oldest files are removed


def cached(key: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors with this key from the cache; compute and store them if they are not there.

    A file that cannot be read is replaced. A cache that cannot be written is not used.
    """
    path = cache_folder() / f"{key}.safetensors"
    with suppress(OSError, SafetensorError, ValueError):
        if path.is_file():
            found = safetensors.torch.load_file(path)
            path.touch()
            return found
    made = compute()
    with suppress(TacitError, OSError):
        write_private_file(path, safetensors.torch.save({name: each.contiguous() for name, each in made.items()}))
        _remove_oldest(path)
    return made


def cache_folder() -> Path:
    """Return the folder of cached features. It can be deleted at any time."""
    return cache() / "features"


def tensor_digest(*parts: str | Tensor) -> str:
    """Return the digest of texts and tensors, with their shapes and types, and of the version of torch."""
    digest = hashlib.sha256(torch.__version__.encode())
    for part in parts:
        if isinstance(part, str):
            digest.update(f" text {len(part)} {part} ".encode())
        else:
            digest.update(f" tensor {tuple(part.shape)} {part.dtype} ".encode())
            digest.update(part.detach().contiguous().numpy().data)
    return digest.hexdigest()


def _remove_oldest(new: Path) -> None:
    """Remove the files that were not used for the longest time, until all together are small enough."""
    files = sorted(new.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in files)
    for path in files:
        if total <= _MAX_BYTES or path == new:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)
