"""Tacit as it was before its engines were rewritten, to compare both versions in the same run."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

COMMIT = "639b247"  # the last commit before the closed-form, tiled and convolutional engines and the ledger's blocks
EARLIER = "earlier:"  # prefix of contenders that run on that source
_ROOT = Path(__file__).parent.parent


def source() -> Path | None:
    """Return the folder of the earlier source; None if there is no git repository with that commit."""
    folder = Path(__file__).parent / ".venv" / f"earlier-{COMMIT}"
    if not (folder / "src").exists():
        done = subprocess.run(["git", "archive", COMMIT, "src/tacit"], cwd=_ROOT, capture_output=True)
        if done.returncode:
            return None
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return folder / "src"
