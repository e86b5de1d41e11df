"""Push-sum over sites conserves the total mass, whatever is lost and whichever site crashes."""

import random
import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.algorithms import MixingOptions
from tacit.graphs.families import one_peer_exponential
from tacit.sites import membership, outbox
from tacit.sites.exchange import Exchange
from tacit.sites.journal import DeliveryStatus
from tacit.sites.message import Link, MessageKind
from tacit.sites.peers import Peers, sender_check
from tacit.sites.wire import decode

from .crashing_network import Crash, CrashingJournal, Lifetime, UnreliableNetwork, network_of
from .manual_sites import describe


class PushSumSite:
    """Push-sum at a site that crashes after given numbers of steps on disk, and resumes from its journal."""

    def __init__(self, folder, network, graph, sites, site, rounds, lifetimes, timeout, options):
        self.name, self._folder, self._network, self._graph = site, folder, network, graph
        self._sites, self._rounds, self._timeout, self._options = sites, rounds, timeout, options
        self._start = torch.tensor([[10.0 ** sites.index(site), 1.0]], dtype=torch.float64)
        self.crashes, self.error, self.state, self._lifetimes = 0, None, self._start, list(lifetimes)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self):
        self._thread.join(60.0)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self):
        try:
            while not self._finishes():
                self.crashes += 1
                self._network.disconnect(self.name)
                self.journal.kill()
                time.sleep(0.05)
        except BaseException as error:
            self.error = error

    def _finishes(self):
        """Start the site; return whether it reached the end without a crash."""
        lifetime = Lifetime(self._lifetimes.pop(0) if self._lifetimes else None)
        description = describe(self._sites, self._rounds)
        self.journal = CrashingJournal(self._folder / f"{self.name}.sqlite", description.digest, lifetime)
        transport = self._network.transport(self.name, lifetime)
        may_send = sender_check(self._graph, self._sites, self.name, self._options.graph_time)
        exchange = Exchange(self.journal, description, self.name, transport, may_send, tolerates_dropout=True)
        try:
            self._network.connect(self.name, exchange.receiver)
            self._push_sum(exchange)
            lifetime.steps = None
            exchange.wait_for_acknowledgements(0.3)
            return True
        except Crash:
            return False

    def _push_sum(self, exchange):
        time_of = self._options.graph_time
        peers = Peers(self._graph, self._sites, exchange, self._timeout, graph_time=time_of)
        checkpoint = self.journal.load_checkpoint()
        t = int(checkpoint[0]) if checkpoint else 0
        state = torch.frombuffer(bytearray(checkpoint[1]), dtype=torch.float64)[None] if checkpoint else self._start
        while t < self._rounds:
            entered = peers.begin(t)
            if entered == t:
                closing = self._options.closing_rounds if t + 1 == self._rounds else 0
                for k in range(self._options.mixings + closing):
                    x, w = peers.mix(time_of(t, k), state[:, :1], state[:, 1:])
                    state = torch.cat([x, w], 1)
                t += 1
                if t % 4:
                    continue
            t = max(t, entered)
            self.journal.save_checkpoint(t, str(t), state.numpy().tobytes())
        peers.begin(self._rounds)
        self.state = state


def total_mass(sites, graph, names, options):
    """Return the mass in the states, in messages that were not used, and in messages to be returned."""
    total = sum(site.state[0].clone() for site in sites.values())
    node_of = names.index
    for name, site in sites.items():
        unused = (DeliveryStatus.PENDING, DeliveryStatus.MISSED)
        for sent in site.journal._select("status IN (?, ?)", unused):
            if sites[sent.receiver].journal.used_digest(sent.operation, name) is None:
                tensors = decode(sent.data, Link(network_of(sent.data), name, sent.receiver)).tensors
                time = options.graph_time(sent.operation.round, sent.operation.sequence)
                weight = float(graph.at(time)[node_of(sent.receiver), node_of(name)])
                total += weight * torch.cat([tensors["0"], tensors["1"]])
    return total


def run_push_sum(folder, seed, loss, lifetimes, rounds=14, **options):
    options = MixingOptions(**options)
    names, graph = ["a", "b", "c", "d", "e"], one_peer_exponential(5)
    network = UnreliableNetwork(random.Random(seed), loss, delay=0.06)
    sites = {
        name: PushSumSite(folder, network, graph, names, name, rounds, lifetimes.get(name, ()), 0.05, options)
        for name in names
    }
    for site in sites.values():
        site.join()
    network.stop()
    return sites, network, total_mass(sites, graph, names, options)


def shorten_intervals(monkeypatch):
    monkeypatch.setattr(outbox, "FIRST_RETRANSMIT", 0.03)
    monkeypatch.setattr(membership, "HELLO_INTERVAL", 0.03)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.1, 0.3]),
    lifetimes=st.dictionaries(st.sampled_from("abcde"), st.lists(st.integers(12, 150), max_size=4), max_size=5),
)
def test_mass_is_conserved(tmp_path_factory, seed, loss, lifetimes):
    with pytest.MonkeyPatch.context() as patch:
        shorten_intervals(patch)
        sites, network, total = run_push_sum(tmp_path_factory.mktemp("sum"), seed, loss, lifetimes)
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)
    for versions in network.bytes_of.values():
        assert len(versions) == 1, "a message is retransmitted byte for byte"
    for (sender, receiver, operation), kinds in network.decisions.items():
        assert len(kinds) == 1, "the receiver decides once"
        used = sites[receiver].journal.used_digest(operation, sender) is not None
        assert kinds == {MessageKind.ACKNOWLEDGE if used else MessageKind.MISSED}
    for site in sites.values():
        site.journal.kill()


def test_mass_is_conserved_with_many_crashes(tmp_path, monkeypatch):
    """Every site crashes often, and nearly a third of all messages is lost."""
    shorten_intervals(monkeypatch)
    lifetimes = {name: [30 + 7 * i + k for i in range(8)] for k, name in enumerate("abcde")}
    sites, network, total = run_push_sum(tmp_path, 1, 0.3, lifetimes, rounds=40)
    assert sum(site.crashes for site in sites.values()) >= 20
    assert {MessageKind.ACKNOWLEDGE} in network.decisions.values()
    assert {MessageKind.MISSED} in network.decisions.values()
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)


def test_mass_is_conserved_with_several_mixings_per_round(tmp_path, monkeypatch):
    """Each mixing has its own matrix, by which a missed message is weighted when it returns."""
    shorten_intervals(monkeypatch)
    lifetimes = {name: [60 + 17 * i + k for i in range(4)] for k, name in enumerate("abcde")}
    options = {"mixings": 3, "closing_rounds": 4}
    sites, network, total = run_push_sum(tmp_path, 2, 0.3, lifetimes, rounds=10, **options)
    assert sum(site.crashes for site in sites.values()) >= 5
    assert {MessageKind.MISSED} in network.decisions.values()
    assert {operation.sequence for _, _, operation in network.bytes_of} >= {0, 1, 2}
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)
