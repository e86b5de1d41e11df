"""Other frameworks, each in its own virtual environment, which is created on first use."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.arena import THREAD_VARIABLES, Measured, NotMeasured, compete
from benchmarks.case import Case
from benchmarks.consensus import name_of

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv"
MINUTES = 5


@dataclass(frozen=True)
class Peer:
    """A script in this folder, the packages it needs, and the equivalent work in Tacit: a contender, or its case."""

    title: str
    script: str
    requirement: str
    ours: str = "tacit"
    case: Case | None = None
    args: tuple[str, ...] = ()
    python: str = ""
    rounds: int = 20


FLOWER = Peer("Flower, logistic of 57 parameters, n = 100", "flower", "flwr[simulation]", "logistic57")
DECENT = {
    n: Peer(
        f"decent-bench, DGD, d = 10, n = {n}",
        "decent",
        "decent-bench",
        f"quadratics{n}",
        args=(str(n),),
        python="3.13",
        rounds=rounds,
    )
    for n, rounds in ((100, 200), (1000, 20))
}
JAX = {
    model: Peer(
        f"JAX-Privacy, {model}, n = 100, clip per record",
        "jaxprivacy",
        "jax-privacy",
        case=Case(model, 100, "record"),
        args=("100", str(64 if model == "mlp" else 0)),
        rounds=rounds,
    )
    for model, rounds in (("logistic", 20), ("mlp", 5))
}
NVFLARE = Peer(
    "NVFlare, consensus of one number, ring, n = 6",
    "flare",
    "nvflare torch",
    name_of("laplace", (6, 1)),
    args=("6",),
    rounds=100,
)


def measure(peer: Peer, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure the peer, and Tacit before and after it; return the slower result of Tacit, and the peer's."""
    python = environment(peer)

    def ours() -> Measured:
        return compete([peer.ours], peer.case, seconds)[peer.ours]

    before = ours()
    found = run_script(python, peer.script, [str(rounds), *peer.args])
    slower = max(before, ours(), key=lambda m: m.seconds)
    theirs = Measured(statistics.median(found["times"]), len(found["times"]), found["memory"], 0.0)
    measured = {"tacit": asdict(slower), "peer": asdict(theirs)}
    return {"title": peer.title, "version": found["version"], "measured": measured}


def run_script(python: Path, script: str, args: list[str], threads: int | None = None) -> dict[str, Any]:
    """Run a script of this folder and return what it prints as JSON in its last line."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}
    quiet |= {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
    command = [str(python), str(HERE / f"{script}.py"), *args]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | quiet
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe, env=environment, start_new_session=True)
    try:
        output, errors = process.communicate(timeout=60 * MINUTES)
    except BaseException as error:  # with all processes that it started
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise NotMeasured(f"timeout after {MINUTES} minutes") from None
        raise
    if process.returncode:
        raise NotMeasured("failed: " + (errors.strip().splitlines() or ["?"])[-1])
    result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return result


def environment(peer: Peer) -> Path:
    """Return the interpreter of the peer's environment; create the environment on first use."""
    folder = ENVIRONMENTS / peer.script
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        base = next(_interpreters(peer.python), None)
        if base is None:
            raise NotMeasured(f"Python {peer.python} was not found")
        install = [str(python), "-m", "pip", "install", "--quiet", *peer.requirement.split()]
        for command in ([base, "-m", "venv", "--clear", str(folder)], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise NotMeasured(f"{peer.requirement} could not be installed: {done.stderr.strip().splitlines()[-1]}")
        (folder / "ready").touch()
    return python


def _interpreters(version: str) -> Iterator[str]:
    """Yield interpreters of at least `version`; without a version, the current one."""
    if not version or sys.version_info >= tuple(map(int, version.split("."))):
        yield sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for path in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}*/bin/python"))):
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            yield str(path)
