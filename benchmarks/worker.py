"""One contender in its own process: `python -m benchmarks.worker NAME [CASE]`.

For every line of its input (a number of rounds) it prints the seconds per round, and at the end its peak memory. With
one thread the seconds are CPU seconds, which other load on the machine hardly affects.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.case import Case


def resident(what: str) -> float:
    """Return megabytes used now (`VmRSS`) or at the peak (`VmHWM`).

    ru_maxrss includes the parent's memory at the start of this process and cannot be reset.
    """
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def forget_peak() -> float:
    """Reset the peak and return the current memory, which holds libraries and data."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def new_step(name: str, case: str | None = None) -> tuple[float, Callable[[], None]]:
    """Return the memory before anything of the contender is built, and its function that runs one round."""
    if case is not None:
        from benchmarks.contenders import CONTENDERS

        made = Case(**json.loads(case))
        _ = made.data, made.shards
        return forget_peak(), CONTENDERS[name](made)
    from benchmarks.consensus import CONSENSUS
    from benchmarks.limits import LIMITS
    from benchmarks.published import PUBLISHED
    from benchmarks.tiny import TINY

    return forget_peak(), (LIMITS | TINY | PUBLISHED | CONSENSUS)[name]()


def main() -> None:
    base, step = new_step(*sys.argv[1:])
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    print("ready", flush=True)
    for line in sys.stdin:
        rounds = int(line)
        start = clock()
        for _ in range(rounds):
            step()
        print((clock() - start) / rounds, flush=True)
    print(json.dumps({"memory": resident("VmHWM") - base, "base": base}), flush=True)


if __name__ == "__main__":
    main()
