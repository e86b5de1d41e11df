"""`python -m benchmarks.cluster`: rounds per second on 1 and 2 ranks, and bytes between ranks against the minimum.

Const-D²P trains a logistic model on 10,000 nodes. Both groups of ranks stay alive and run in turns, so that other load
on the machine affects both equally. Every process has one thread. On a busy machine the CPU time of the slowest rank is
more reliable than wall-clock time: it is the time of a round on a dedicated core, without waiting for messages.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.worker import forget_peak, resident
from tacit.algorithms import algorithms
from tacit.graphs import Graph, graphs
from tacit.networks import RENDEZVOUS_FILE, Cluster, Network, ProcessGroup, Simulated, join_process_group
from tacit.tasks import Dataset, Model, Target, Task, models

ROOT = Path(__file__).parent.parent
NODES, SHARD, POOL, BATCH = 10_000, 100, 20_000, 16
ROW = 4 * (64 * 10 + 10 + 1)  # bytes per message: parameters and push-sum weight
GRAPHS: dict[str, dict[str, Any]] = {"ring": {}, "one-peer-exponential": {}, "random-regular": {"degree": 4, "seed": 0}}


def graph_of(name: str, nodes: int) -> Graph:
    return graphs.build(name, {"nodes": nodes, **GRAPHS[name]})


def task_of(rows: range) -> Task:
    """Return the task of the nodes `rows`. Shards overlap, which does not affect time."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(POOL, 1, 8, 8, generator=generator), torch.randint(10, (POOL,), generator=generator)
    shards = [(i * SHARD + np.arange(SHARD)) % POOL for i in rows]
    module = models.build("logistic", {"inputs": (1, 8, 8), "classes": 10})
    data = Dataset("random", x, y, x[:100], y[:100], Target.of_classes(10))
    return Task(Model(module), data, shards, batch=BATCH, nodes=np.array(rows), repeats=True)


def rounds_of(graph: Graph, ranks: ProcessGroup | None) -> Callable[[], None]:
    network: Network = Simulated(graph) if ranks is None else Cluster(graph, ranks)
    task = task_of(range(int(network.nodes[0]), int(network.nodes[-1]) + 1))
    algorithm = algorithms.build("const-d2p", {"lr": 0.1, "clip": 1.0, "noise_multiplier": 1.0})
    state, t = algorithm.start(task, graph), 0

    def step() -> None:
        nonlocal state, t
        state, t = algorithm.round(t, state, task, network), t + 1

    return step


def work(name: str, nodes: int) -> None:
    """Run as a rank: read numbers of rounds, and print seconds, CPU seconds and bytes sent per round for each."""
    torch.set_num_threads(1)
    graph = graph_of(name, nodes)
    with join_process_group() as ranks:
        base = forget_peak()
        step = rounds_of(graph, ranks)
        print("ready", flush=True)
        for line in sys.stdin:
            before = 0 if ranks is None else ranks.bytes_sent
            clock, processor = time.perf_counter(), time.process_time()
            for _ in range(int(line)):
                step()
            spent = {"seconds": time.perf_counter() - clock, "processor": time.process_time() - processor}
            spent["bytes"] = 0 if ranks is None else ranks.bytes_sent - before
            print(json.dumps({**{k: v / int(line) for k, v in spent.items()}, "memory": resident("VmHWM") - base}))
            sys.stdout.flush()


class Team:
    """The ranks of one contender."""

    def __init__(self, size: int, name: str, nodes: int, meeting: Path) -> None:
        place = {
            "WORLD_SIZE": str(size),
            RENDEZVOUS_FILE: str(meeting),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "benchmarks.cluster", "--rank", name, "--nodes", str(nodes)]
        self._ranks = [
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **place, "RANK": str(rank)},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for rank in range(size)
        ]
        for rank in self._ranks:
            assert rank.stdout is not None
            rank.stdout.readline()

    def rounds(self, count: int) -> dict[str, float]:
        """Run `count` rounds; return the total bytes of all ranks and the maximum of everything else."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{count}\n")
            rank.stdin.flush()
        reports = [json.loads(rank.stdout.readline()) for rank in self._ranks if rank.stdout is not None]
        worst = {key: max(each[key] for each in reports) for key in ("seconds", "processor", "memory")}
        return {**worst, "bytes": sum(each["bytes"] for each in reports)}

    def end(self) -> None:
        for rank in self._ranks:
            rank.communicate()


def least(graph: Graph, size: int, first: int, count: int) -> float:
    """Return the minimum bytes per round: each row is sent once to each rank that hosts a neighbour."""
    blocks = np.array_split(np.arange(graph.nodes), size)
    rows = 0
    for t in range(first, first + count):
        weights = graph.at(t).tocsr()
        for block in blocks:
            needed = np.unique(weights[block].indices)
            rows += int((~np.isin(needed, block)).sum())
    return rows * ROW / count


def measured(name: str, nodes: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Measure 1 and 2 ranks in turns for `seconds`, at least three times each."""
    graph, count = graph_of(name, nodes), 14
    with tempfile.TemporaryDirectory() as folder:
        teams = {size: Team(size, name, nodes, Path(folder) / f"meeting-{size}") for size in (1, 2)}
        turns_of: dict[int, list[dict[str, float]]] = {size: [] for size in teams}
        for team in teams.values():
            team.rounds(count)  # warm-up over a whole period of the graph
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(turns_of[1]) < 3:
            for size, team in teams.items():
                turns_of[size].append(team.rounds(count))
        for team in teams.values():
            team.end()
    for size, turns in turns_of.items():
        medians = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
        yield {"graph": name, "ranks": size, **medians, "least": least(graph, size, count, count)}


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    head = ["graph", "ranks", "rounds/s", "÷ 1 rank", "rounds per CPU second", "÷ 1 rank"]
    head += ["MB per round", "÷ minimum", "peak MB per rank, data and state"]
    table = [head, ["---"] * len(head)]
    for row in rows:
        one = next(each for each in rows if each["graph"] == row["graph"] and each["ranks"] == 1)
        ratios = [f"**{one[key] / row[key]:.2f}×**" if row is not one else "" for key in ("seconds", "processor")]
        excess = f"{row['bytes'] / row['least']:.3f}" if row["least"] else ""
        speeds = [f"{1 / row[key]:.3g}" for key in ("seconds", "processor")]
        cells = [row["graph"], str(row["ranks"]), speeds[0], ratios[0], speeds[1], ratios[1]]
        table.append([*cells, f"{row['bytes'] / 1e6:.3f}", excess, f"{row['memory']:.0f}"])
    return ["| " + " | ".join(cells) + " |" for cells in table]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="minimum seconds per graph")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--graph", choices=GRAPHS, help="measure only this graph")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        work(options.rank, options.nodes)
        return
    names = [options.graph] if options.graph else GRAPHS
    rows = [row for name in names for row in measured(name, options.nodes, options.seconds)]
    print(f"{os.cpu_count()} cores, load before the run {os.getloadavg()[0]:.1f}; {options.nodes:,} nodes\n")
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    main()
