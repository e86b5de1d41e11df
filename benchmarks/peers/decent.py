"""decent-bench's DGD on quadratics, d = 10; runs in its own environment (Python 3.13) and prints seconds per round."""

import itertools
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import networkx as nx
from decent_array import interoperability as iop
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import DGD
from decent_bench.costs import QuadraticCost
from decent_bench.networks import P2PNetwork

NODES, ROUNDS, D = int(sys.argv[2]), int(sys.argv[1]), 10

iop.set_backend("numpy")


def cost() -> QuadraticCost:
    a = iop.uniform(shape=(D, D))
    return QuadraticCost((a + iop.transpose(a)) / 2 + D * iop.eye(D), iop.normal(shape=(D,)))


# decent-bench stores a history of every round by default; it is faster without.
agents = [Agent(cost(), state_snapshot_period=10**9) for _ in range(NODES)]
network = P2PNetwork(nx.random_regular_graph(4, NODES, seed=0), agents)
ends = [time.process_time()]  # it uses one core; CPU time excludes other load
DGD(step_size=0.01).run(network, ROUNDS + 1, progress_callback=lambda _: ends.append(time.process_time()))
times = [b - a for a, b in itertools.pairwise(ends[1:])]
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(json.dumps({"times": times, "memory": peak / 1024, "version": version("decent-bench")}))
