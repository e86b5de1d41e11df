"""One contender in a process of its own: `python -m benchmarks.worker NAME [CASE]`.

It answers every line of its input with the seconds that one round took, and ends with its peak of memory. With one
thread they are seconds of the processor: what else runs on the machine then hardly counts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from benchmarks.case import Case


def resident(what: str) -> float:
    """Megabytes now (`VmRSS`) or at the peak (`VmHWM`).

    ru_maxrss would count what the parent held when it started this process, and cannot be set back.
    """
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def forget_peak() -> float:
    """Start a new peak; what is held now, libraries and data, is the base."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def main() -> None:
    name, *rest = sys.argv[1:]
    if rest:
        from benchmarks.contenders import CONTENDERS

        case = Case(**json.loads(rest[0]))
        _ = case.data, case.shards
        base = forget_peak()
        step = CONTENDERS[name](case)
    else:
        from benchmarks.limits import LIMITS
        from benchmarks.published import PUBLISHED
        from benchmarks.tiny import TINY

        base = forget_peak()
        step = (LIMITS | TINY | PUBLISHED)[name]()
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
