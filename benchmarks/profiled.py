"""Where the time of a round goes: `python -m benchmarks.profiled NAME [CASE]` prints the share of each part as JSON.

One thread. The profiler overstates the cost of function calls, and therefore the row of everything else.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from collections import Counter
from pathlib import Path

import torch

import tacit
from benchmarks.worker import new_step

SECONDS = 5.0
OTHER = "Python and everything else"
# The first prefix of a module's path within the package decides.
PARTS = {
    "tasks/batch_loader": "draw and load batches",
    "tasks/sampling": "draw and load batches",
    "tasks/records": "draw and load batches",
    "privacy/sampling": "draw and load batches",
    "tasks/gradients/input_norms": "norms and clipping",
    "tasks/gradients/terms": "norms and clipping",
    "tasks/clip": "norms and clipping",
    "tasks/gradients": "forward and backward, sums",
    "privacy/noise": "noise and rounding",
    "privacy/mechanisms": "noise and rounding",
    "networks": "mixing and counting messages",
    "graphs": "mixing and counting messages",
    "privacy": "ledger and checks of releases",
    "algorithms": "the method's own steps",
    "tasks": "requests and checks of the task",
}
_SOURCE = str(Path(tacit.__file__).parent) + "/"


def part_of(file: str) -> str:
    """Return the part of a round that a source file belongs to."""
    if not file.startswith(_SOURCE):
        return OTHER
    path = file.removeprefix(_SOURCE)
    return next((part for prefix, part in PARTS.items() if path.startswith(prefix)), OTHER)


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """Return the share of each part. Time of functions outside Tacit belongs to the callers in Tacit."""
    stats, seconds = pstats.Stats(profile).stats, Counter[str]()  # type: ignore[attr-defined]
    owners: dict[tuple[str, int, str], dict[str, float]] = {}

    def owner(function: tuple[str, int, str], depth: int = 0) -> dict[str, float]:
        """Return how the time of a function is divided among the parts, by its callers' time in it."""
        if function[0].startswith(_SOURCE) or depth > 50:
            return {part_of(function[0]): 1.0}
        if function not in owners:
            owners[function] = {}  # nobody, while its callers are visited: functions can call each other in a circle
            found = Counter[str]()
            for caller, (_, _, _, spent) in stats[function][4].items():
                for part, share in owner(caller, depth + 1).items():
                    found[part] += share * spent
            total = sum(found.values())
            owners[function] = {part: each / total for part, each in found.items()} if total else {OTHER: 1.0}
        return owners[function]

    for function, (_, _, own, _, _) in stats.items():
        for part, share in owner(function).items():
            seconds[part] += own * share
    total = sum(seconds.values())
    return {part: seconds[part] / total for part in [*dict.fromkeys(PARTS.values()), OTHER]}


def main() -> None:
    torch.set_num_threads(1)
    _, step = new_step(*sys.argv[1:])
    for _ in range(3):
        step()
    profile, start, rounds = cProfile.Profile(), time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        profile.enable()
        step()
        profile.disable()
        rounds += 1
    print(json.dumps({"rounds": rounds, "shares": shares(profile)}))


if __name__ == "__main__":
    main()
