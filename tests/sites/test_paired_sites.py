"""Sites with paired noise: the run of the simulation with a seed; with real keys, noise that cancels in the sum."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import KeyedPairNoise, Paired
from tacit.runs import Config, verify
from tacit.sites import grpc_transport, membership, outbox
from tacit.sites.build import build_site
from tacit.sites.setup import create_network
from tacit.tasks import Clip

from .paired_sites import DYN_PAIRED, PAIRED, THREE, change_network, load
from .site_networks import LossyTransport, create_node, create_site_files, run_nodes, total_mass
from .six_sites import SITES, create_six_sites, run_beside_simulation, run_with_an_interrupted_site

pytestmark = pytest.mark.usefixtures("one_torch_thread")

CASES = {
    "dyn-d2p": DYN_PAIRED,
    "dp-sgd, some keys": {
        "algorithm": {"name": "dp-sgd", "lr": 0.5},
        "privacy": {**PAIRED, "keys": "graph"},
        "graph": {"name": "ring", "nodes": SITES},
    },
    "permutation": {
        "algorithm": {"name": "dp-sgd", "lr": 0.5},
        "privacy": PAIRED,
        "batch": {"size": 30, "sampling": "permutation"},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_models_equal_those_of_the_simulation(tmp_path, case):
    nodes, results, simulated = run_beside_simulation(tmp_path, **CASES[case])
    for node in nodes:
        (first, *_) = node.parts.ledger.releases()
        assert isinstance(first.mechanism, Paired)
        assert first.mechanism.plan.digest == simulated.algorithm.pairs.digest
    epsilons = [result["privacy"]["guaranteed"] for result in results]
    assert max(epsilons) == pytest.approx(simulated.privacy.guaranteed, rel=1e-9)


def test_interrupted_site_resumes(tmp_path):
    run_with_an_interrupted_site(tmp_path, **DYN_PAIRED)


def first_noise(files):
    """The noise that each site adds in round 0, and the part of it that is its own (sites, d)."""
    together, own = [], []
    for file in files:
        part = build_site(load(file))
        (planned,) = part.algorithm.privacy.releases(0, part.task.nodes, part.task.sampling)
        value = part.task.gradient(part.task.initial(), 0, Clip(1.0))
        no_edges = replace(planned.mechanism.plan, edges=np.zeros((0, 2), int), colluders=0, _cache={})
        no_pairs = replace(value.context, pairs=KeyedPairNoise(part.node, {}))
        for mechanism, bounded, found in (
            (planned.mechanism, value, together),
            (replace(planned.mechanism, plan=no_edges), replace(value, context=no_pairs), own),
        ):
            noise = torch.zeros_like(bounded._value)
            mechanism.add_noise(noise, mechanism.noise_scale(bounded), bounded)
            found.append(noise)
    return torch.cat(together).double(), torch.cat(own).double()


def test_real_keys_cancel_exactly_in_the_sum(tmp_path):
    """Every site has its own secret keys. The sum over all sites has the sites' own noise and nothing else."""
    files = create_network(tmp_path / "net", SITES, Config.parse({**THREE, **DYN_PAIRED})).nodes
    together, alone = first_noise(files)
    assert (together.sum(0) == alone.sum(0)).all()
    assert not torch.equal(together, alone)
    assert (together - alone).std() > alone.std()


def test_real_keys_differ_in_every_network_and_round(tmp_path):
    drawn = []
    for name in ("a", "b"):
        files = create_network(tmp_path / name, 3, Config.parse(THREE)).nodes
        parts = [build_site(load(file)) for file in files]
        noises = [noise for part in parts for noise in part.keys.partners.values()]
        noises += [part.noise for part in parts]
        for t in (0, 1):
            for noise in noises:
                noise.begin_round(t)
                drawn.append(tuple(noise.words("noise", np.array([0]), 0, 4)[0].tolist()))
    # Both ends of the three pairs draw the same, and everything else is different.
    assert len(drawn) == 2 * 2 * 9
    assert len(set(drawn)) == 2 * 2 * 6


def test_a_run_with_real_keys(tmp_path):
    files = create_site_files(tmp_path / "net", THREE, 3, noise_seed=None, peer_timeout=60.0, checkpoint_every=2)
    nodes = [create_node(file) for file in files]
    results = run_nodes(nodes)
    assert {result["rounds"] for result in results} == {6}
    assert all(result["privacy"]["guaranteed"] <= 3.0 for result in results)
    assert all(result["privacy"]["simulated"] is False for result in results)
    for node in nodes:
        assert all(isinstance(release.mechanism, Paired) for release in node.parts.ledger.releases())
        assert node.parts.keys.position is None
        assert not node.site.certificates.pair_key.exists(), "the private key is used once"
        assert verify(node.site.state).differences == ()
    again = create_node(files[0])
    assert again.create_run().t == 6, "a finished site starts again, without keys"
    again.journal.close()


def test_one_line_in_the_config_creates_everything(tmp_path):
    """`tacit network init` needs noise = "paired", and nothing else."""
    config = Config.parse({"rounds": 2, "privacy": {"epsilon": 5.0, "noise": "paired"}, "evaluate_every": 2})
    made = create_network(tmp_path / "net", 3, config)
    for file in made.nodes:
        site = load(file)
        assert site.certificates.pair_key.stat().st_mode & 0o777 == 0o600
        assert site.network_config.epoch == 1
        assert len(set(site.network_config.public_keys.values())) == 3
        assert site.network_config.records == tuple(
            len(np.load(other.parent / "records.npz")["y"]) for other in made.nodes
        )
    results = run_nodes([create_node(file) for file in made.nodes])
    assert {result["rounds"] for result in results} == {2}


def test_the_file_of_the_key_graph_is_distributed(tmp_path):
    """Its place may differ between sites, its contents may not."""
    edges = tmp_path / "pairs.txt"
    edges.write_text("0 1\n1 2\n0 2\n")
    privacy = {**THREE["privacy"], "keys": str(edges)}
    made = create_network(tmp_path / "net", 3, Config.parse({**THREE, "privacy": privacy}))
    edges.unlink()
    first, second = (build_site(load(file)).description for file in made.nodes[:2])
    assert first == second
    assert json.loads(first.text)["privacy"]["keys"] == "file"
    (tmp_path / "net" / "pairs.txt").write_text("0 1\n1 2\n")
    assert build_site(load(made.nodes[2])).description.pairs.plan != first.pairs.plan


def test_other_noise_needs_no_keys(tmp_path):
    privacy = {"epsilon": 3.0, "delta": 1e-4}
    files = create_network(tmp_path / "net", 3, Config.parse({**THREE, "privacy": privacy})).nodes
    part = build_site(load(files[0]))
    assert part.description.pairs is None
    assert not isinstance(part.task.pair_noise, KeyedPairNoise)
    assert "public_key" not in (tmp_path / "net/network.toml").read_text()
    assert sorted(path.name for path in files[0].parent.glob("*.key")) == ["site-1.key"]


def test_records_of_every_site_are_needed(tmp_path):
    files = create_network(tmp_path / "net", 3, Config.parse(THREE)).nodes
    for site in ("site-1", "site-2", "site-3"):
        change_network(tmp_path / "net", site, records=None)
    with pytest.raises(TacitError, match=r"needs records = N of every entry of \[\[sites\]\]"):
        build_site(load(files[0]))
    change_network(tmp_path / "net", "site-1", records=150)
    with pytest.raises(TacitError, match="some sites have records and some do not"):
        load(files[0])


def test_own_records_must_be_as_many_as_stated(tmp_path):
    files = create_network(tmp_path / "net", 3, Config.parse(THREE)).nodes
    change_network(tmp_path / "net", "site-2", records=201)
    with pytest.raises(TacitError, match=r"site-2 has 200 training records, but .* states 201"):
        build_site(load(files[1]))


# Silent sites and lost messages


def test_a_silent_site_leaves_the_noise_of_its_partners(tmp_path):
    """Nobody reveals or computes its noise. The others' releases are bit for bit the same, with or without it."""
    files = create_network(tmp_path / "net", SITES, Config.parse({**THREE, **DYN_PAIRED})).nodes
    together, alone = first_noise(files)
    part = build_site(load(files[0]))
    plan = part.algorithm.pairs
    rest = together[1:].sum(0) - alone[1:].sum(0)
    assert torch.equal(rest, -(together[0] - alone[0])), "exactly the shares with the silent site"
    # It is N(0, (n − 1) κ²) per coordinate, at the factor of the release.
    (planned,) = part.algorithm.privacy.releases(0, part.task.nodes, part.task.sampling)
    expected = planned.mechanism.pair * np.sqrt(len(plan.partners(0)))
    assert rest.std().item() == pytest.approx(expected, rel=0.1)
    # Never less privacy: without its row, the colluders' covariance is a principal submatrix.
    for colluders in ((), (1,)):
        full = np.linalg.inv(_honest(plan, colluders))
        fewer = np.linalg.inv(_honest(plan, colluders)[:-1, :-1])
        assert (np.diag(fewer) <= np.diag(full)[:-1] + 1e-12).all()


def _honest(plan, colluders):
    keep = [node for node in range(plan.nodes) if node not in colluders]
    return plan.covariance(colluders)[np.ix_(keep, keep)]


def test_a_run_continues_without_a_silent_site(tmp_path):
    """Five of six sites: the sixth never starts."""
    changes = {**DYN_PAIRED, "rounds": 4, "evaluate_every": 4}
    _, files = create_six_sites(tmp_path, noise_seed=None, peer_timeout=0.5, **changes)
    nodes = [create_node(file) for file in files]
    for node in nodes:
        node.exchange.wait_for_hello_replies = lambda *args: None  # start without the sixth
    results = run_nodes(nodes[:5])
    assert {result["rounds"] for result in results} == {4}
    for result, node in zip(results, nodes[:5], strict=True):
        assert 0 < result["privacy"]["guaranteed"] <= node.run.planned_epsilon * (1 + 1e-9)
        others = set(range(SITES)) - {node.parts.node}
        assert set(node.parts.task.pair_noise.partners) == others, "it adds all its noise"


def run_and_record(files, transport, monkeypatch):
    """Run all sites; return the releases of each, by round, and how many messages were returned to their senders."""
    monkeypatch.setattr(outbox, "FIRST_RETRANSMIT", 0.1)
    monkeypatch.setattr(outbox, "MAX_RETRANSMIT_INTERVAL", 0.2)
    monkeypatch.setattr(membership, "HELLO_INTERVAL", 0.1)
    monkeypatch.setattr(grpc_transport, "TICK", 0.02)
    nodes, releases = [create_node(file, transport) for file in files], []
    for node in nodes:
        mine = {}
        node.parts.task.on_release = lambda step, _purpose, value, _scale, mine=mine: mine.update({step: value.clone()})
        releases.append(mine)
    run_nodes(nodes)
    return nodes, releases, sum(node.exchange.counts.returned for node in nodes)


def test_noise_in_lost_messages_is_kept_and_cancels_later(tmp_path, monkeypatch):
    """Σ x is the start minus lr times all releases, whatever is lost: no share of a pair disappears or counts twice."""
    changes = {**DYN_PAIRED, "rounds": 20, "evaluate_every": 20}
    for attempt in range(8):  # how many messages return depends on the speed of the machine
        _, files = create_six_sites(tmp_path / str(attempt), noise_seed=None, peer_timeout=0.2, **changes)
        nodes, releases, returned = run_and_record(files, LossyTransport, monkeypatch)
        x, w = total_mass(files)
        lr = nodes[0].parts.algorithm.lr
        released = torch.cat([value for mine in releases for value in mine.values()]).double().sum(0)
        start = torch.cat([node.parts.task.initial() for node in nodes]).double().sum(0)
        largest = float(torch.cat([value for mine in releases for value in mine.values()]).abs().max())
        torch.testing.assert_close(x, start - lr * released, rtol=0, atol=1e-4 * largest)
        assert float(w) == pytest.approx(SITES, rel=1e-6)
        if returned:
            break
    assert returned > 0
