"""Sites that are killed, frozen and cut off: what they have said is in their ledgers, and nothing counts twice.

What is quick is in `make test`; `make chaos` does it at length, and prints what it has seen.
"""

import signal
import time

import pytest

from tacit.sites import grpc_transport, membership, outbox
from tests.sites.chaos import Host, Lossy, Recorded, in_threads, made, mass, running

BASE = {
    "name": "chaos",
    "seed": 7,
    "evaluate_every": 1000,
    "graph": "ring",
    "batch": {"size": 16},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 2.0},
    "privacy": {"delta": 1e-3},
}
METHODS = {
    "dyn-d2p": BASE,
    "lt-admm-dp": {
        **BASE,
        "algorithm": {"name": "lt-admm-dp", "sigma": 0.1, "tau": 2},
        "batch": {"size": 16, "sampling": "without-replacement"},
    },
    "dp-norm": {
        **BASE,
        "algorithm": {"name": "dp-norm", "lr": 0.05, "smoothness": 0.5, "local_steps": 2, "sigma": 1.0},
        "data": {"name": "digits", "normalise": "unit"},
        "model": {"name": "logistic", "biases": False},
        "batch": {"size": 16, "sampling": "permutation"},
    },
    "ppgl": {
        "name": "chaos",
        "seed": 7,
        "graph": "complete",
        "algorithm": {"name": "ppgl", "beta": 0.1, "rho": 1.0, "lam": 0.1, "clip": 20.0, "K": 1, "release": "rounds"},
        "privacy": {"epsilon": 50.0, "delta": 1e-5},
    },
}
# Its weights are powers of two, of which float32 loses little: what mass is missing was lost.
PUSH_SUM = {**BASE, "graph": "one-peer-exponential"}


def killed(folder, name, sites, rounds, kills):
    """A network whose sites are killed again and again ends as one to which nothing happens, bit for bit."""
    config = {**METHODS[name], "rounds": rounds}
    calm = made(folder / "calm", config, sites)
    nodes, began = in_threads(calm, Recorded, 300.0), time.monotonic()
    with running(made(folder / "chaos", config, sites, peer_timeout=60.0, checkpoint_every=7)) as network:
        network.harass(kills, seed=sites)
        network.finish()
    for host, node, file in zip(network.hosts, nodes, calm, strict=True):
        undisturbed = Host(file)
        assert host.results == undisturbed.results != {}
        assert host.ledger == undisturbed.ledger != []
        assert {(peer, digest) for (peer, *_), digest in host.said.items()} <= node.transport.sent
        assert host.begun == host.starts - host.early
        assert not host.told("no message for")
    assert network.kills >= kills
    print(f"{name}, {network}, {time.monotonic() - began:.0f} s: every model as without")


@pytest.mark.parametrize(("name", "kills"), [("dyn-d2p", 6), ("lt-admm-dp", 2)])
def test_killed_sites_go_on(tmp_path, name, kills):
    killed(tmp_path, name, sites=3, rounds=5 * kills, kills=kills)


@pytest.mark.full
@pytest.mark.parametrize(("name", "kills"), [("dyn-d2p", 200), ("lt-admm-dp", 50), ("dp-norm", 50), ("ppgl", 50)])
def test_killed_sites_go_on_at_length(tmp_path, name, kills):
    killed(tmp_path, name, sites=6, rounds=2 * kills, kills=kills)


def away(folder, how, sites, rounds, times=1):
    """A site is gone for longer than the others have patience, and comes back."""
    files = made(folder / "net", {**PUSH_SUM, "rounds": rounds}, sites, peer_timeout=1.0, checkpoint_every=7)
    with running(files) as network:
        for gone in network.hosts[:times]:
            others = [host for host in network.hosts if host is not gone]
            assert network.until(lambda gone=gone: gone.round >= 10)
            if how == "killed":
                gone.kill()
            else:
                gone.signal(signal.SIGSTOP)
            left = max(host.round for host in network.hosts)
            assert network.until(lambda left=left, others=others: all(host.round >= left + 20 for host in others))
            if how == "killed":
                gone.start()
            else:
                gone.signal(signal.SIGCONT)
            assert network.until(lambda left=left, gone=gone: gone.round >= left + 20)
        network.finish()
    for gone in network.hosts[:times]:
        told = [event for host in network.hosts for what in ("no message for", "rejoined") for event in host.told(what)]
        assert {event["event"].split()[0] for event in told if event["peer"] == gone.name} == {"no", "rejoined:"}
        slept = set(range(rounds)) - {line[0] for line in gone.ledger}
        assert len(slept) >= 15
        assert not slept & {round_ for _, round_, _, _ in gone.said}
    assert mass(files) == pytest.approx(sites, rel=1e-6)
    print(f"{how} for long, {network}: mass error {abs(mass(files) - sites):.1g}")


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_others_go_on_without_one_and_take_it_back(tmp_path, how):
    away(tmp_path, how, sites=3, rounds=200)


@pytest.mark.full
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_others_go_on_without_several_and_take_them_back(tmp_path, how):
    away(tmp_path, how, sites=6, rounds=500, times=4)


@pytest.mark.full
def test_mass_is_conserved_where_nobody_waits_for_the_killed(tmp_path):
    files = made(tmp_path / "net", {**PUSH_SUM, "rounds": 400}, 6, peer_timeout=0.5, checkpoint_every=7)
    with running(files) as network:
        network.harass(60, seed=1)
        network.finish()
    assert network.kills >= 60
    assert any(host.told("no message for") for host in network.hosts)
    assert mass(files) == pytest.approx(6, rel=1e-6)
    print(f"impatient, {network}: mass error {abs(mass(files) - 6):.1g}")


def lossy(folder, monkeypatch, sites, rounds, patience):
    """Three of ten messages and answers never arrive."""
    monkeypatch.setattr(outbox, "FIRST_RETRANSMIT", 0.1)  # else it takes minutes
    monkeypatch.setattr(outbox, "MAX_RETRANSMIT_INTERVAL", 0.2)
    monkeypatch.setattr(membership, "HELLO_INTERVAL", 0.1)
    monkeypatch.setattr(grpc_transport, "TICK", 0.02)
    files = made(folder / "net", {**PUSH_SUM, "rounds": rounds}, sites, peer_timeout=patience)
    nodes = in_threads(files, Lossy)
    assert all(node.run.t == rounds and node.run.stopped is None for node in nodes)
    lost, counts = sum(node.transport.lost for node in nodes), [node.exchange.counts for node in nodes]
    missed, returned = (sum(getattr(each, key) for each in counts) for key in ("missed", "returned"))
    assert lost > rounds
    assert mass(files) == pytest.approx(sites, rel=1e-6)
    print(
        f"{sites} sites, {rounds} rounds, {lost} lost: {missed} missed, {returned} taken back, "
        f"mass error {abs(mass(files) - sites):.1g}"
    )
    return files, missed, returned


def test_what_is_lost_is_said_again(tmp_path, monkeypatch):
    """Where everyone has patience, nothing is missed, and the models are those of a network that loses nothing."""
    files, missed, _ = lossy(tmp_path, monkeypatch, sites=3, rounds=20, patience=60.0)
    calm = made(tmp_path / "calm", {**PUSH_SUM, "rounds": 20}, 3)
    in_threads(calm)
    assert [Host(file).results for file in files] == [Host(file).results for file in calm]
    assert missed == 0


@pytest.mark.parametrize(("sites", "rounds"), [(3, 30), pytest.param(6, 100, marks=pytest.mark.full, id="at length")])
def test_what_is_lost_is_taken_back(tmp_path, monkeypatch, sites, rounds):
    """Where nobody waits for long, much is missed, and none of it counts twice or not at all."""
    _, missed, returned = lossy(tmp_path, monkeypatch, sites, rounds, patience=0.2)
    assert missed > 0
    assert returned > 0
