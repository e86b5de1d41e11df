"""A cluster makes the same run as a simulation, sends only what is needed, and stops cleanly."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tacit.networks import RENDEZVOUS_FILE, Simulated
from tests.networks.at_work import NODES, VERBS, cases, ran, verbs

ROOT = Path(__file__).parents[2]


class Ended:
    """The results of all ranks."""

    def __init__(self, size, folder):
        self.size, self.folder = size, folder
        self.results = [load_file(folder / f"results-{rank}") for rank in range(size)]

    def each(self, key):
        return [result[key] for result in self.results]

    def said(self, how):
        return [path.read_text() if path.exists() else None for path in self._files(how)]

    def _files(self, how):
        return [self.folder / f"{how}-{rank}" for rank in range(self.size)]


@pytest.fixture(scope="module", params=[2, 3], ids=["2 ranks", "3 ranks"])
def cluster(request, tmp_path_factory):
    folder, size = tmp_path_factory.mktemp("cluster"), request.param
    place = {"WORLD_SIZE": str(size), RENDEZVOUS_FILE: str(folder / "meeting"), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "tests.networks.at_work", str(folder)]
    ranks = []
    for rank in range(size):
        with (folder / f"errors-{rank}").open("w") as errors:
            given = {**os.environ, **place, "RANK": str(rank), "OMP_NUM_THREADS": "1"}
            ranks.append(subprocess.Popen(command, cwd=ROOT, env=given, stderr=errors))
    for rank in ranks:
        rank.wait(timeout=300)
    for rank in range(size):
        assert "Traceback" not in (folder / f"errors-{rank}").read_text()
    return Ended(size, folder)


@pytest.mark.parametrize("graph", VERBS)
def test_verbs_equal_the_simulation(cluster, graph):
    network = Simulated(VERBS[graph])
    network.mix(0, torch.ones(VERBS[graph].nodes, 5), torch.ones(VERBS[graph].nodes))
    for verb, expected in verbs(VERBS[graph], network).items():
        found = cluster.each(f"{graph} {verb}")
        if verb in ("max", "mean"):
            assert all(torch.equal(one, found[0]) for one in found)
            assert torch.allclose(found[0], expected, atol=1e-6)
        else:
            assert torch.equal(torch.cat(found), expected)  # summed in the same order: bit for bit
    traffic = network.traffic
    counted = [traffic.messages, traffic.bytes, traffic.rounds, traffic.bytes_out]
    if graph in ("ring", "one-peer-exponential"):  # where only some speak, a rank knows its own busiest node only
        assert [each.tolist() for each in cluster.each(f"{graph} traffic")] == [counted] * cluster.size
    assert cluster.each(f"{graph} traffic")[0].tolist()[:3] == counted[:3]


@pytest.mark.parametrize("graph", VERBS)
def test_only_boundary_rows_are_sent(cluster, graph):
    weights = VERBS[graph].at(0).toarray()
    blocks = np.array_split(np.arange(len(weights)), cluster.size)
    for rank, block in enumerate(blocks):
        rows = sum(any(weights[i, j] for i in other) for j in block for other in blocks[:rank] + blocks[rank + 1 :])
        assert cluster.each(f"{graph} sent")[rank].tolist() == [rows * (5 * 4 + 4)]


CASES = {case: (name, graph) for case, name, graph in cases()}


@cache  # for every number of ranks
def simulated(case):
    return ran(case, *CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_every_algorithm_equals_the_simulation(cluster, case):
    models, noise = simulated(case)
    assert torch.allclose(torch.cat(cluster.each(f"{case} models")), models, rtol=0, atol=1e-6)
    # Each rank's ledger is its nodes' part of the simulation's.
    assert torch.equal(torch.cat(cluster.each(f"{case} noise")), noise)


def test_values_that_are_not_finite_stop_all_ranks(cluster):
    *others, last = cluster.said("NaN")
    node = NODES - (NODES // cluster.size)
    why = f"node {node} has values that are not finite in round 3; nothing was sent. Try a smaller learning rate"
    assert last == f"TacitError: {why}"
    for said in others:
        assert said == f"PeerStopped: rank {cluster.size - 1} of the cluster has stopped: {why}"


def test_rank_that_does_not_answer_times_out(cluster):
    sentence = "another process of the cluster has ended, or did not answer within 3 seconds"
    assert cluster.said("silent") == [f"PeerStopped: {sentence}"] * cluster.size


def test_killed_rank_stops_the_others(cluster):
    *others, last = cluster.said("killed")
    assert last is None
    sentence = "another process of the cluster has ended, or did not answer within 60 seconds"
    assert others == [f"PeerStopped: {sentence}"] * (cluster.size - 1)


def test_each_rank_needs_a_node(cluster):
    sentence = f"{cluster.size} processes need at least {cluster.size} nodes, got 1: use fewer processes or more nodes"
    assert cluster.said("few") == [sentence] * cluster.size
