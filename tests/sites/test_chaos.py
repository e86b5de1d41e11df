"""Sites that are killed, frozen and cut off: their ledgers are complete, and no message counts twice or is lost.

`make test` runs the short tests; `make chaos` runs the long ones and prints what happened.
"""

import signal
import time

import pytest

from tacit.sites import grpc_transport, membership, outbox

from .site_networks import (
    LossyTransport,
    RecordingTransport,
    create_node,
    create_site_files,
    run_nodes,
    total_weight,
)
from .site_processes import ObservedSite, running_network

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
# The weights of this graph are powers of two, so float32 rounding is small compared with a lost message.
PUSH_SUM = {**BASE, "graph": "one-peer-exponential"}
ABSENT, REJOINED = "no message for", "rejoined"  # events in the log of a site


def check_killed_sites(folder, name, sites, rounds, kills):
    """Check that a network whose sites are killed ends exactly like one that runs undisturbed."""
    config = {**METHODS[name], "rounds": rounds}
    undisturbed = create_site_files(folder / "undisturbed", config, sites)
    nodes = [create_node(file, RecordingTransport) for file in undisturbed]
    run_nodes(nodes, 300.0)
    start = time.monotonic()
    files = create_site_files(folder / "killed", config, sites, peer_timeout=60.0, checkpoint_every=7)
    with running_network(files) as network:
        network.kill_repeatedly(kills, seed=sites)
        network.wait_until_finished()
    for site, node, file in zip(network.sites, nodes, undisturbed, strict=True):
        expected = ObservedSite(file)
        assert site.result_files == expected.result_files != {}
        assert site.ledger_rows == expected.ledger_rows != []
        assert {(peer, digest) for (peer, *_), digest in site.sent.items()} <= node.transport.sent
        assert site.work_starts == site.starts - site.early_kills
        assert not site.events_with(ABSENT)
    assert network.kills >= kills
    print(f"{name}, {network}, {time.monotonic() - start:.0f} s: all models equal")


@pytest.mark.parametrize(("name", "kills"), [("dyn-d2p", 6), ("lt-admm-dp", 2)])
def test_killed_sites_resume_exactly(tmp_path, name, kills):
    check_killed_sites(tmp_path, name, sites=3, rounds=5 * kills, kills=kills)


@pytest.mark.full
@pytest.mark.parametrize(("name", "kills"), [("dyn-d2p", 200), ("lt-admm-dp", 50), ("dp-norm", 50), ("ppgl", 50)])
def test_killed_sites_resume_exactly_long(tmp_path, name, kills):
    check_killed_sites(tmp_path, name, sites=6, rounds=2 * kills, kills=kills)


def check_absent_sites(folder, how, sites, rounds, absent=1):
    """Check that sites which are gone for longer than the timeout rejoin, one after the other."""
    config = {**PUSH_SUM, "rounds": rounds}
    files = create_site_files(folder / "net", config, sites, peer_timeout=1.0, checkpoint_every=7)
    with running_network(files) as network:
        for gone in network.sites[:absent]:
            others = [site for site in network.sites if site is not gone]
            assert network.wait_until(lambda gone=gone: gone.round >= 10)
            gone.kill() if how == "killed" else gone.signal(signal.SIGSTOP)
            later = max(site.round for site in network.sites) + 20
            assert network.wait_until(lambda later=later, others=others: all(site.round >= later for site in others))
            gone.start() if how == "killed" else gone.signal(signal.SIGCONT)
            assert network.wait_until(lambda later=later, gone=gone: gone.round >= later)
        network.wait_until_finished()
    for gone in network.sites[:absent]:
        for prefix in (ABSENT, REJOINED):
            events = [event for site in network.sites for event in site.events_with(prefix)]
            assert gone.name in {event["peer"] for event in events}
        skipped = set(range(rounds)) - {row[0] for row in gone.ledger_rows}
        assert len(skipped) >= 15
        assert not skipped & {round_ for _, round_, _, _ in gone.sent}
    assert total_weight(files) == pytest.approx(sites, rel=1e-6)
    print(f"{how} for long, {network}: mass error {abs(total_weight(files) - sites):.1g}")


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_run_continues_without_an_absent_site(tmp_path, how):
    check_absent_sites(tmp_path, how, sites=3, rounds=200)


@pytest.mark.full
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_run_continues_without_several_absent_sites(tmp_path, how):
    check_absent_sites(tmp_path, how, sites=6, rounds=500, absent=4)


@pytest.mark.full
def test_mass_is_conserved_with_a_short_timeout(tmp_path):
    """The other sites continue without a site that was killed."""
    files = create_site_files(tmp_path / "net", {**PUSH_SUM, "rounds": 400}, 6, peer_timeout=0.5, checkpoint_every=7)
    with running_network(files) as network:
        network.kill_repeatedly(60, seed=1)
        network.wait_until_finished()
    assert network.kills >= 60
    assert any(site.events_with(ABSENT) for site in network.sites)
    assert total_weight(files) == pytest.approx(6, rel=1e-6)
    print(f"short timeout, {network}: mass error {abs(total_weight(files) - 6):.1g}")


def run_lossy(folder, monkeypatch, sites, rounds, timeout):
    """Run a network that loses three of ten messages and replies."""
    monkeypatch.setattr(outbox, "FIRST_RETRANSMIT", 0.1)  # otherwise it would take minutes
    monkeypatch.setattr(outbox, "MAX_RETRANSMIT_INTERVAL", 0.2)
    monkeypatch.setattr(membership, "HELLO_INTERVAL", 0.1)
    monkeypatch.setattr(grpc_transport, "TICK", 0.02)
    files = create_site_files(folder / "net", {**PUSH_SUM, "rounds": rounds}, sites, peer_timeout=timeout)
    nodes = [create_node(file, LossyTransport) for file in files]
    run_nodes(nodes)
    assert all(node.run.t == rounds and node.run.stopped is None for node in nodes)
    lost, counts = sum(node.transport.lost for node in nodes), [node.exchange.counts for node in nodes]
    missed, returned = sum(count.missed for count in counts), sum(count.returned for count in counts)
    assert lost > rounds / 4  # fewer on a fast machine, which sends less a second time
    assert total_weight(files) == pytest.approx(sites, rel=1e-6)
    error = abs(total_weight(files) - sites)
    print(f"{sites} sites, {rounds} rounds, {lost} lost: {missed} missed, {returned} returned, mass error {error:.1g}")
    return files, missed, returned


def test_lost_messages_are_retransmitted(tmp_path, monkeypatch):
    """With a long timeout no message is missed, and the models are those of a network without losses."""
    files, missed, _ = run_lossy(tmp_path, monkeypatch, sites=3, rounds=20, timeout=60.0)
    reliable = create_site_files(tmp_path / "reliable", {**PUSH_SUM, "rounds": 20}, 3)
    run_nodes([create_node(file) for file in reliable])
    assert [ObservedSite(file).result_files for file in files] == [ObservedSite(file).result_files for file in reliable]
    assert missed == 0


@pytest.mark.parametrize(("sites", "rounds"), [(3, 30), pytest.param(6, 100, marks=pytest.mark.full, id="long")])
def test_lost_messages_are_returned(tmp_path, monkeypatch, sites, rounds):
    """With a short timeout messages are missed and returned, and in no network one counts twice or is lost.

    How many depends on the speed of the machine, so that one network may return none.
    """
    counts = []
    for attempt in range(8):
        counts.append(run_lossy(tmp_path / str(attempt), monkeypatch, sites, rounds, timeout=0.2)[1:])
        if all(counts[-1]):
            break
    missed, returned = counts[-1]
    assert missed > 0, counts
    assert returned > 0, counts
