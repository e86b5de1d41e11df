"""Push-sum over sites conserves what all hold, whatever is lost and whoever dies."""

import random
import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.graphs.families import one_peer_exponential
from tacit.sites import membership, outbox
from tacit.sites.exchange import Exchange
from tacit.sites.journal import DeliveryStatus
from tacit.sites.message import Link, MessageKind
from tacit.sites.peers import Peers, sender_check
from tacit.sites.wire import decode

from .cases import Crash, Doomed, Hub, Life, data_network, described


class Summing:
    """Push-sum at a site that dies where it is told to, and goes on from its journal."""

    def __init__(self, folder, hub, graph, sites, me, rounds, deaths, patience):
        self.name, self._folder, self._hub, self._graph = me, folder, hub, graph
        self._sites, self._rounds, self._patience = sites, rounds, patience
        self._start = torch.tensor([[10.0 ** sites.index(me), 1.0]], dtype=torch.float64)
        self.crashes, self.error, self.state, self._deaths = 0, None, self._start, list(deaths)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def join(self):
        self._thread.join(60.0)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _live(self):
        try:
            while not self._lived():
                self.crashes += 1
                self._hub.unplug(self.name)
                self.journal.kill()
                time.sleep(0.05)
        except BaseException as error:
            self.error = error

    def _lived(self):
        life, description = Life(self._deaths.pop(0) if self._deaths else None), described(self._sites, self._rounds)
        self.journal = Doomed(self._folder / f"{self.name}.sqlite", description.digest, life)
        wires, may = self._hub.wires(self.name, life), sender_check(self._graph, self._sites, self.name)
        post = Exchange(self.journal, description, self.name, wires, may, tolerates_dropout=True)
        try:
            self._hub.plug(self.name, post)
            self._sum(post)
            life.steps = None
            post.wait_for_acknowledgements(0.3)
            return True
        except Crash:
            return False

    def _sum(self, post):
        peers = Peers(self._graph, self._sites, post, self._patience)
        kept = self.journal.load_checkpoint()
        t = int(kept[0]) if kept else 0
        state = torch.frombuffer(bytearray(kept[1]), dtype=torch.float64)[None] if kept else self._start
        while t < self._rounds:
            now = peers.begin(t)
            if now == t:
                x, w = peers.mix(t, state[:, :1], state[:, 1:])
                state, t = torch.cat([x, w], 1), t + 1
                if t % 4:
                    continue
            t = max(t, now)
            self.journal.save_checkpoint(t, str(t), state.numpy().tobytes())
        peers.begin(self._rounds)
        self.state = state


def mass(sites, graph, names):
    """All that is anywhere: in states, in messages that nobody has used, in those to be taken back."""
    total = sum(site.state[0].clone() for site in sites.values())
    number = names.index
    for name, site in sites.items():
        for sent in [*site.journal._select("status IN (?, ?)", (DeliveryStatus.PENDING, DeliveryStatus.MISSED))]:
            used = sites[sent.receiver].journal.used_digest(sent.operation, name)
            message = decode(sent.data, Link(data_network(sent.data), name, sent.receiver))
            if used is None:
                weight = float(graph.at(sent.operation.round)[number(sent.receiver), number(name)])
                total += weight * torch.cat([message.tensors["0"], message.tensors["1"]])
    return total


def summed(folder, seed, loss, deaths, rounds=14):
    names, graph = ["a", "b", "c", "d", "e"], one_peer_exponential(5)
    hub = Hub(random.Random(seed), loss, delay=0.06)
    sites = {
        name: Summing(folder, hub, graph, names, name, rounds, deaths.get(name, ()), patience=0.05) for name in names
    }
    for site in sites.values():
        site.join()
    hub.stop()
    return sites, hub, mass(sites, graph, names)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.1, 0.3]),
    deaths=st.dictionaries(st.sampled_from("abcde"), st.lists(st.integers(12, 150), max_size=4), max_size=5),
)
def test_mass_is_conserved(tmp_path_factory, seed, loss, deaths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "FIRST_RETRANSMIT", 0.03)
        patch.setattr(membership, "HELLO_INTERVAL", 0.03)
        sites, hub, total = summed(tmp_path_factory.mktemp("sum"), seed, loss, deaths)
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)
    for said in hub.bytes_of.values():
        assert len(said) == 1, "what is said again are the same bytes"
    for (sender, receiver, verb), told in hub.fates.items():
        assert len(told) == 1, "a fate is told once and for all"
        used = sites[receiver].journal.used_digest(verb, sender) is not None
        assert told == {MessageKind.ACKNOWLEDGE if used else MessageKind.MISSED}
    for site in sites.values():
        site.journal.kill()


def test_mass_is_conserved_where_many_die(tmp_path, monkeypatch):
    """The same, at length in one place: everyone dies often, and nearly a third of all is lost."""
    monkeypatch.setattr(outbox, "FIRST_RETRANSMIT", 0.03)
    monkeypatch.setattr(membership, "HELLO_INTERVAL", 0.03)
    deaths = {name: [30 + 7 * i + k for i in range(8)] for k, name in enumerate("abcde")}
    sites, hub, total = summed(tmp_path, 1, 0.3, deaths, rounds=40)
    assert sum(site.crashes for site in sites.values()) >= 20
    assert {MessageKind.ACKNOWLEDGE} in hub.fates.values()
    assert {MessageKind.MISSED} in hub.fates.values()
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)
