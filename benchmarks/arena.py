"""Contenders run in turns, so that other load on the machine affects all of them equally."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.case import Case

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Measured:
    """Median seconds per round, number of repetitions, and peak megabytes beyond libraries and data (`base`)."""

    seconds: float
    repetitions: int
    memory: float
    base: float


class _Worker:
    def __init__(self, name: str, case: Case | None) -> None:
        args = [name] if case is None else [name, json.dumps(asdict(case))]
        command = [sys.executable, "-m", "benchmarks.worker", *args]
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._read()
        self.times: list[float] = []

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a contender exited early; its error is printed above")
        return line

    def run(self, rounds: int = 1) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rounds}\n")
        self._process.stdin.flush()
        return float(self._read())

    def plan(self, seconds: float) -> None:
        """Choose rounds per measurement (about 20 ms) and measurements per turn (about half a second)."""
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
    """Run turns for `seconds`, at least three, after two warm-up rounds."""
    workers = [_Worker(name, case) for name in names]
    for worker in workers:
        worker.run()
        worker.plan(worker.run())
    start, turn = time.perf_counter(), 0
    while turn < 3 or time.perf_counter() - start < seconds:
        for worker in workers:
            worker.turn()
        turn += 1
    return {name: worker.end() for name, worker in zip(names, workers, strict=True)}
