"""The worker processes of a run on one machine: started, interrupted and ended together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, ClassVar

import torch

from tacit.errors import TacitError
from tacit.networks import RENDEZVOUS_FILE, ProcessGroup
from tacit.runs.observer import Observer

if TYPE_CHECKING:
    from tacit.runs.run import Run

_CHECK_INTERVAL = 0.5  # seconds between two checks whether a rank was interrupted
_SHUTDOWN_SECONDS = 30.0  # for ranks to save their folders after another rank has failed
_LAUNCHER_PID = "TACIT_LAUNCHER_PID"

Handler = Callable[[int, FrameType | None], None]


def launch_workers(workers: int, arguments: Sequence[str]) -> int:
    """Run `tacit ARGUMENTS` on `workers` ranks of this machine and return the exit code.

    The ranks communicate over the loopback interface only. Rank 0 inherits standard output. Ctrl-C is passed on to
    every rank once.
    """
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        for rank in ranks:
            rank.send_signal(number)

    with tempfile.TemporaryDirectory(prefix="tacit-") as folder, _on_ctrl_c(pass_on):
        for rank in range(workers):
            ranks.append(_start_rank(rank, workers, Path(folder) / "rendezvous", arguments))
        _wait_for(ranks)
    codes = [rank.returncode for rank in ranks]
    if -signal.SIGINT in codes:  # a second Ctrl-C
        return 128 + signal.SIGINT
    killed = [rank for rank, code in enumerate(codes) if code < 0]
    if killed and codes[0] <= 0:  # otherwise rank 0 has printed the error
        raise TacitError(f"rank {killed[0]} was killed (possibly out of memory); all ranks stopped")
    return codes[0]


def _start_rank(rank: int, size: int, rendezvous: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    threads = str(max(1, (os.cpu_count() or 1) // size))
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), RENDEZVOUS_FILE: str(rendezvous)}
    place |= {"GLOO_SOCKET_IFNAME": loopback, _LAUNCHER_PID: str(os.getpid())}
    return subprocess.Popen(
        [sys.executable, "-m", "tacit", *arguments],
        env={"OMP_NUM_THREADS": threads, **os.environ, **place},
        stdout=None if rank == 0 else subprocess.DEVNULL,
        stderr=None if rank == 0 or os.environ.get("TACIT_DEBUG") else subprocess.DEVNULL,
        start_new_session=True,  # otherwise Ctrl-C in a terminal would reach it twice
    )


def _wait_for(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all ranks have ended. After one fails, the others have a while to stop before they are killed."""
    deadline = float("inf")
    while any(rank.poll() is None for rank in ranks):
        if deadline == float("inf") and any(rank.returncode for rank in ranks):
            deadline = time.monotonic() + _SHUTDOWN_SECONDS
        if time.monotonic() > deadline:
            for rank in ranks:
                rank.kill()
        time.sleep(0.05)


class SynchronisedInterrupt(Observer):
    """Stops all ranks after the same round when one of them is interrupted or the process that started it has ended.

    The ranks check about twice per second. At each check they agree on the round of the next one.
    """

    shows_rounds: ClassVar[bool] = False

    def __init__(self, ranks: ProcessGroup) -> None:
        self._ranks, self._interrupted, self._next = ranks, False, 0
        self._before: tuple[int, float] | None = None
        self._handling = ExitStack()

    def on_start(self, run: Run) -> None:
        def on_signal(number: int, _: FrameType | None) -> None:
            self._interrupted = True
            signal.signal(number, signal.SIG_DFL)  # a second Ctrl-C ends the process at once

        self._handling.enter_context(_on_ctrl_c(on_signal))

    def on_round(self, run: Run) -> None:
        if run.t < self._next or run.t >= run.rounds:
            return
        now = time.monotonic()
        rounds, then = self._before or (run.t, now)
        pace = max(1, int((run.t - rounds) / max(now - then, 1e-3) * _CHECK_INTERVAL))
        interrupted, slowest = self._ranks.max(torch.tensor([int(self._interrupted or _orphaned()), -pace])).tolist()
        self._next, self._before = run.t - slowest, (run.t, now)
        if interrupted:
            raise KeyboardInterrupt

    def on_finish(self, run: Run) -> None:
        self._handling.close()


def _orphaned() -> bool:
    return _LAUNCHER_PID in os.environ and os.getppid() != int(os.environ[_LAUNCHER_PID])


@contextmanager
def _on_ctrl_c(handler: Handler) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
