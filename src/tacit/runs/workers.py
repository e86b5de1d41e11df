"""The processes of a run on one machine: started together, stopped together by Ctrl-C, ended together."""

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
from typing import TYPE_CHECKING

import torch

from tacit.errors import TacitError
from tacit.networks.ranks import MEETING, Ranks
from tacit.runs.observer import Observer

if TYPE_CHECKING:
    from tacit.runs.run import Run

_OFTEN = 0.5  # seconds between two times that ranks ask each other whether to stop
_GRACE = 30.0  # seconds that ranks have to put their folders in order when another one has failed
_STARTER = "TACIT_STARTER"

Handler = Callable[[int, FrameType | None], None]


def launch_workers(workers: int, arguments: Sequence[str]) -> int:
    """Run `tacit ARGUMENTS` on so many ranks, which talk over the loopback interface alone; the exit code of the whole.

    Rank 0 has this process's output. Ctrl-C reaches the ranks once, through here.
    """
    ranks: list[subprocess.Popen[bytes]] = []

    def tell(number: int, _: FrameType | None) -> None:
        for rank in ranks:
            rank.send_signal(number)

    with tempfile.TemporaryDirectory(prefix="tacit-") as folder, _on_ctrl_c(tell):
        for rank in range(workers):
            ranks.append(_started(rank, workers, Path(folder) / "meeting", arguments))
        _await(ranks)
    codes = [rank.returncode for rank in ranks]
    if -signal.SIGINT in codes:  # who asked twice knows why
        return 128 + signal.SIGINT
    killed = [rank for rank, code in enumerate(codes) if code < 0]
    if killed and codes[0] <= 0:  # otherwise rank 0 has said what was wrong
        raise TacitError(
            f"rank {killed[0]} was ended from outside, for want of memory perhaps, and so all have stopped"
        )
    return codes[0]


def _started(rank: int, size: int, meeting: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    threads = str(max(1, (os.cpu_count() or 1) // size))
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), MEETING: str(meeting)}
    place |= {"GLOO_SOCKET_IFNAME": loopback, _STARTER: str(os.getpid())}
    return subprocess.Popen(
        [sys.executable, "-m", "tacit", *arguments],
        env={"OMP_NUM_THREADS": threads, **os.environ, **place},
        stdout=None if rank == 0 else subprocess.DEVNULL,
        stderr=None if rank == 0 or os.environ.get("TACIT_DEBUG") else subprocess.DEVNULL,
        start_new_session=True,  # so that a terminal's Ctrl-C does not reach it a second time
    )


def _await(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Until all have ended. When one has failed the others notice by themselves; one that does not is ended."""
    until = float("inf")
    while any(rank.poll() is None for rank in ranks):
        if until == float("inf") and any(rank.returncode for rank in ranks):
            until = time.monotonic() + _GRACE
        if time.monotonic() > until:
            for rank in ranks:
                rank.kill()
        time.sleep(0.05)


class SynchronisedInterrupt(Observer):
    """Stops all ranks after the same round when one of them is interrupted or the process that started it has ended.

    The ranks compare notes about twice per second: each time they agree on the round of the next comparison.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks, self._asked, self._next = ranks, False, 0
        self._before: tuple[int, float] | None = None
        self._handling = ExitStack()

    def on_start(self, run: Run) -> None:
        def ask(number: int, _: FrameType | None) -> None:
            self._asked = True
            signal.signal(number, signal.SIG_DFL)  # a second Ctrl-C ends the process at once

        self._handling.enter_context(_on_ctrl_c(ask))

    def on_round(self, run: Run) -> None:
        if run.t < self._next or run.t >= run.rounds:
            return
        now = time.monotonic()
        rounds, then = self._before or (run.t, now)
        pace = max(1, int((run.t - rounds) / max(now - then, 1e-3) * _OFTEN))
        asked, slowest = self._ranks.max(torch.tensor([int(self._asked or _orphaned()), -pace])).tolist()
        self._next, self._before = run.t - slowest, (run.t, now)
        if asked:
            raise KeyboardInterrupt

    def on_finish(self, run: Run) -> None:
        self._handling.close()


def _orphaned() -> bool:
    return _STARTER in os.environ and os.getppid() != int(os.environ[_STARTER])


@contextmanager
def _on_ctrl_c(handler: Handler) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
