"""`python -m benchmarks.transport`: throughput of messages between two sites, over gRPC and over bare TLS.

Two processes on this machine with mutual TLS. Messages of 4 MB are sent in one direction, with a short reply at the
end. The contenders take turns, so that other load on the machine affects all of them. On a busy machine a contender
with more threads gets a larger share of the processor; there, compare the processor time of the two ends.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.transport_contenders import CONTENDERS, LINK, Contender, run_sender, run_server
from tacit.sites.certificates import create_authority, create_site_certificate


class Speed(NamedTuple):
    """Megabytes per second of elapsed time, and of processor time of the end that used more of it."""

    clock: float
    processor: float


class _Running:
    """The two processes of a contender."""

    def __init__(self, contender: Contender, folder: Path) -> None:
        spawn = mp.get_context("spawn")
        ready, server_end = spawn.Pipe()
        self._pipe, sender_end = spawn.Pipe()
        self._server = spawn.Process(target=run_server, args=(contender, folder, server_end), daemon=True)
        self._sender = spawn.Process(target=run_sender, args=(contender, folder, sender_end), daemon=True)
        self._server.start()
        self._sender.start()
        self._port = ready.recv()
        self._server_seconds = 0.0

    def measure(self, megabytes: float, count: int) -> Speed:
        """Send `count` messages."""
        self._pipe.send((self._port, megabytes, count))
        elapsed, sender_seconds = self._pipe.recv()
        total = megabytes * count
        return Speed(total / elapsed, total / max(sender_seconds, self._new_server_seconds()))

    def _new_server_seconds(self) -> float:
        """Return the processor time of the server since the last call."""
        assert self._server.pid is not None
        before, self._server_seconds = self._server_seconds, time.clock_gettime((~self._server.pid << 3) | 2)  # Linux
        return self._server_seconds - before

    def stop(self) -> None:
        for process in (self._server, self._sender):
            process.kill()
            process.join()


def compare(contenders: list[Contender], megabytes: float, count: int, turns: int) -> dict[str, list[Speed]]:
    """Return the speed of every contender in every turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        create_authority(folder)
        for site in (LINK.sender, LINK.receiver):
            create_site_certificate(folder, site)
        running = {contender.name: _Running(contender, folder) for contender in contenders}
        try:
            speeds: dict[str, list[Speed]] = {name: [] for name in running}
            for turn in range(turns + 1):
                for name, one in running.items():
                    speed = one.measure(megabytes, count if turn else 2)  # the first turn warms up
                    speeds[name] += [speed] if turn else []
            return speeds
        finally:
            for one in running.values():
                one.stop()


def table(speeds: dict[str, list[Speed]]) -> str:
    """Return a Markdown table: medians, and the median and best ratio to bare TLS in the same turn."""
    bare = speeds[CONTENDERS[0].name]
    lines = [
        "| | MB/s | of bare TLS | best | MB per processor second | of bare TLS | best |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, measured in speeds.items():
        cells = [name]
        for values, references in zip(zip(*measured, strict=True), zip(*bare, strict=True), strict=True):
            ratios = [a / b for a, b in zip(values, references, strict=True)]
            cells += [f"{statistics.median(values):.0f}", f"{statistics.median(ratios):.0%}", f"{max(ratios):.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transport", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=4.0, help="size of a message")
    parser.add_argument("--count", type=int, default=50, help="messages per turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", nargs="*", help="texts in the names of contenders; bare TLS always runs")
    parser.add_argument("--json", action="store_true", help="print the speeds of every turn")
    options = parser.parse_args()
    chosen = [c for c in CONTENDERS if not options.only or any(text in c.name for text in options.only)]
    contenders = list(dict.fromkeys([CONTENDERS[0], *chosen]))
    speeds = compare(contenders, options.megabytes, options.count, options.turns)
    print(json.dumps(speeds) if options.json else table(speeds))


if __name__ == "__main__":
    main()
