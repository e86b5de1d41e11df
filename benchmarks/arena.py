"""Contenders run in turns, so that other load on the machine affects all of them equally."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.case import Case
from benchmarks.earlier import EARLIER, source

ROOT = Path(__file__).parent.parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
LONG_ROUND = 2.0  # seconds; a contender with longer rounds has one warm-up round


class NotMeasured(Exception):
    """Something could not be measured; the message gives the reason."""


@dataclass(frozen=True)
class Measured:
    """Median seconds per round, number of repetitions, and peak megabytes beyond libraries and data (`base`)."""

    seconds: float
    repetitions: int
    memory: float
    base: float


class _Worker:
    def __init__(self, name: str, case: Case | None) -> None:
        self._name, self.times = name, list[float]()
        args = [name.removeprefix(EARLIER), *([] if case is None else [json.dumps(asdict(case))])]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in __exit__)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", *args],
            cwd=ROOT,
            env=_environment(name),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def __enter__(self) -> _Worker:
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            lines = self._errors.read().strip().splitlines() or [f"exit code {self._process.wait()}"]
            raise NotMeasured(f"{self._name} failed: {lines[-1]}")
        return line

    def run(self, rounds: int = 1) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rounds}\n")
        self._process.stdin.flush()
        return float(self._read())

    def warm_up(self) -> None:
        """Choose rounds per measurement (about 20 ms) and measurements per turn (about half a second)."""
        seconds = self.run()
        if seconds < LONG_ROUND:
            seconds = self.run()
        self._rounds = max(1, round(0.02 / seconds))
        self._times = max(1, round(0.5 / (seconds * self._rounds)))

    def turn(self) -> None:
        self.times.extend(self.run(self._rounds) for _ in range(self._times))

    def end(self) -> Measured:
        assert self._process.stdin is not None
        self._process.stdin.close()
        last = json.loads(self._read())
        self._process.wait()
        return Measured(statistics.median(self.times), len(self.times), **last)


def compete(names: Sequence[str], case: Case | None, seconds: float) -> dict[str, Measured]:
    """Run turns for `seconds`, at least three, after the warm-up. Processes start one after the other."""
    with ExitStack() as stack:
        workers = [stack.enter_context(_Worker(name, case)) for name in names]
        for worker in workers:
            worker.warm_up()
        start, turn = time.perf_counter(), 0
        while turn < 3 or time.perf_counter() - start < seconds:
            for worker in workers:
                worker.turn()
            turn += 1
        return {name: worker.end() for name, worker in zip(names, workers, strict=True)}


def _environment(name: str) -> dict[str, str]:
    """Return the environment of a contender; a name that starts with EARLIER runs on the source of that commit."""
    if not name.startswith(EARLIER):
        return dict(os.environ)
    folder = source()
    if folder is None:
        raise NotMeasured("the earlier source is not available: this is not a git checkout")
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))}
