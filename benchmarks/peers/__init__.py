"""Other frameworks, each in its own virtual environment, which is created on first use."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arena import Measured, compete

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv"


@dataclass(frozen=True)
class Peer:
    """A script in this folder, the package it needs, and the equivalent work in Tacit."""

    title: str
    script: str
    requirement: str
    ours: str
    args: tuple[str, ...] = ()
    python: str = ""


FLOWER = Peer("Flower, logistic of 57 parameters, n = 100", "flower", "flwr[simulation]", "logistic57")
DECENT = [
    Peer(f"decent-bench, DGD, d = 10, n = {n}", "decent", "decent-bench", f"quadratics{n}", (str(n),), "3.13")
    for n in (100, 1000)
]


class NotMeasured(Exception):
    """A peer could not be measured; the message gives the reason."""


def measure(peer: Peer, rounds: int, seconds: float) -> tuple[Measured, Measured]:
    """Measure the peer, and Tacit before and after it; return the slower result of Tacit and the peer's."""
    python = environment(peer)
    before = compete([peer.ours], None, seconds)[peer.ours]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}
    command = [str(python), str(HERE / f"{peer.script}.py"), str(rounds), *peer.args]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | quiet)
    except subprocess.TimeoutExpired:
        raise NotMeasured("timeout after 10 minutes") from None
    if result.returncode:
        raise NotMeasured("failed: " + (result.stderr.strip().splitlines() or ["?"])[-1])
    found = json.loads(result.stdout.strip().splitlines()[-1])
    after = compete([peer.ours], None, seconds)[peer.ours]
    theirs = Measured(statistics.median(found["times"]), len(found["times"]), found["memory"], 0.0)
    return max(before, after, key=lambda m: m.seconds), theirs


def environment(peer: Peer) -> Path:
    """Return the interpreter of the peer's environment; create the environment on first use."""
    python = ENVIRONMENTS / peer.script / "bin" / "python"
    if not (ENVIRONMENTS / peer.script / "ready").exists():
        base = next(_interpreters(peer.python), None)
        if base is None:
            raise NotMeasured(f"Python {peer.python} was not found")
        install = [str(python), "-m", "pip", "install", "--quiet", *peer.requirement.split()]
        for command in ([base, "-m", "venv", "--clear", str(ENVIRONMENTS / peer.script)], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise NotMeasured(f"{peer.requirement} could not be installed: {done.stderr.strip().splitlines()[-1]}")
        (ENVIRONMENTS / peer.script / "ready").touch()
    return python


def _interpreters(version: str) -> Iterator[str]:
    """Yield interpreters of at least `version`; without a version, the current one."""
    if not version or sys.version_info >= tuple(map(int, version.split("."))):
        yield sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for path in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}*/bin/python"))):
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            yield str(path)
