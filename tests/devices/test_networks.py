"""Every network, graph and source of shared noise gives the same on a device as in main memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.networks import Cluster, ProcessGroup, Simulated
from tacit.privacy import KeyedPairNoise, Noise
from tests.devices.under_test import DEVICE, DTYPE, on_device
from tests.networks.at_work import VERBS

CPU = torch.device("cpu")


class Board:
    """The messages of all ranks, which run in threads."""

    def __init__(self, size):
        self.values, self._barrier = {}, threading.Barrier(size)

    def exchange(self, rank, value):
        """Return the values of all ranks."""
        self.values[rank] = value
        self._barrier.wait(60)
        found = dict(self.values)
        self._barrier.wait(60)
        return found


class Ranks(ProcessGroup):
    """Ranks in threads. Messages must be on the device of the ranks, as nccl requires."""

    def __init__(self, rank, size, board, device):
        self.rank, self.size, self.device, self.bytes_sent, self.stop_reason = rank, size, device, 0, ""
        self._board = board

    def exchange(self, outgoing, incoming):
        assert {message.device for message in outgoing.values()} <= {self.device}
        found = self._board.exchange(self.rank, outgoing)
        received = {rank: found[rank][self.rank] for rank in incoming}
        assert {rank: message.numel() for rank, message in received.items()} == dict(incoming)
        return received

    def _reduced(self, x, operation):
        rows = torch.stack(list(self._board.exchange(self.rank, x).values()))
        return rows.amax(0) if operation == torch.distributed.ReduceOp.MAX else rows.sum(0)


def results(graph, network, device):
    """The results of all verbs, each as rows of the hosted nodes or edges."""
    rng = np.random.default_rng(0)
    x, w, s = (torch.from_numpy(rng.normal(size=(graph.nodes, *rest))).to(DTYPE) for rest in ((5,), (), ()))
    mine = torch.from_numpy(network.nodes)
    x, w, s = (value[mine].to(device) for value in (x, w, s))
    found = [torch.cat([v.view(len(mine), -1) for v in network.mix(t, x, w)], 1) for t in (0, 1, 5)]
    found += [network.mean(x).expand(len(mine), -1), network.max(s).expand(len(mine), 1)]
    if not graph.directed:
        edges = network.edges(0)
        assert edges.row.device == device
        ends = torch.from_numpy(edges.source), torch.from_numpy(edges.target)
        z = (ends[0] * 100 + ends[1]).to(DTYPE)[:, None].to(device)
        found += [network.swap(0, z), network.swap(0, z, (ends[0] + ends[1]) % 2 == 0)]
    assert {each.device for each in found} == {device}
    return [each.cpu() for each in found]


def in_simulation(graph, device):
    network = Simulated(graph)
    network.device = device
    return results(graph, network, device)


@pytest.mark.parametrize("graph", VERBS)
def test_simulations_and_clusters_give_on_a_device_what_they_give_in_main_memory(graph):
    graph = VERBS[graph]
    expected = in_simulation(graph, CPU)
    with on_device():
        found = in_simulation(graph, DEVICE)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    board = Board(3)

    def work(rank):
        with on_device():
            return results(graph, Cluster(graph, Ranks(rank, 3, board, DEVICE)), DEVICE)

    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(work, range(3)))
    for one, other in zip((torch.cat(rows) for rows in zip(*parts, strict=True)), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (["mps", "mps"], None),
        (["cpu", "cpu"], None),
        (["mps", "cpu"], "devices of one kind, got cpu, mps: set device"),
        (["cuda:1", "cuda:1"], 'a CUDA device of its own, got cuda:1 for several: set device = "cuda"'),
    ],
)
def test_ranks_need_devices_of_one_kind_and_each_its_own(devices, words):
    """The generators of noise differ by kind. Two ranks on one CUDA device would wait for each other."""
    board = Board(2)

    class Named(Ranks):
        def gather_strings(self, text):
            return list(self._board.exchange(self.rank, text).values())

    def use(rank):
        ranks = Named(rank, 2, board, CPU)
        ranks.use_device(torch.device(devices[rank]))
        return ranks.device

    with ThreadPoolExecutor(2) as pool:
        for rank, found in enumerate([pool.submit(use, rank) for rank in range(2)]):
            if words is None:
                assert found.result(60) == torch.device(devices[rank])
            else:
                with pytest.raises(TacitError, match=words):
                    found.result(60)


def test_the_noise_that_two_sites_share_does_not_depend_on_their_devices():
    """One site computes on a device and the other one in main memory: their noise cancels in the sum."""
    key, pairs, ids = bytes(32), np.array([[0, 1]]), np.array([3])
    with on_device():
        drawn = []
        for node, device in ((0, DEVICE), (1, CPU)):
            out = torch.zeros(1, 500, device=device)
            source = KeyedPairNoise(node, {1 - node: Noise.from_key(key)})
            source.draw(pairs, ids, "pair/gradient", 5, 2.0, 1.0, out)
            assert out.device == device
            drawn.append(out.cpu())
    assert torch.equal(*drawn)
    assert 1.5 < drawn[0].std() < 2.5
