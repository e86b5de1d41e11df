"""Statistics before round 0 between sites: the same means at every site, also if one is killed while it sends them."""

import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
import torch

import tacit
from tacit.errors import TacitError
from tacit.runs import from_config
from tacit.sites.build import build_site
from tacit.sites.message import MessageKind
from tacit.sites.site_config import SiteConfig
from tacit.tasks import record_preparation

from .paired_sites import PAIRED, SIZES, change_network
from .site_networks import create_node, run_nodes
from .six_sites import DIRECTED, TARGET, create_six_sites, run_beside_simulation, stack_models
from .small_network import BASE, create_small_network

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SHARES = {"mean": 0.1, "gram": 0.3, "gradients": 0.6}
COMMON = {"rounds": 3, "evaluate_every": 3, "sharding": SIZES, "data": {"name": "digits", "normalise": "unit"}}
CONST = {**COMMON, "algorithm": {"name": "const-d2p", "lr": 0.5, "momentum": 0.5}, "graph": DIRECTED}
CASES = {
    "independent": {**CONST, "privacy": {**TARGET, "shares": SHARES}},
    "paired": {**CONST, "privacy": {**PAIRED, "shares": SHARES}},
    "ring": {**COMMON, "algorithm": {"name": "dp-sgd", "lr": 0.5}, "privacy": {**TARGET, "shares": SHARES}},
}


class Killed(BaseException):
    """The simulated kill of a site."""


def kill_at(node, kind, count, before):
    """Kill a site in its `count`-th operation of a kind: when its message is sent, or when it has all values."""
    receive, seen = node.exchange.receive, []

    def killed(operation, *rest):
        seen.append(operation.kind)
        is_it = seen.count(kind) == count and operation.kind == kind
        if is_it and before:
            raise Killed
        received = receive(operation, *rest)
        if is_it:
            raise Killed
        return received

    node.exchange.receive = killed


def mean_messages(site):
    """The means that a site has sent, by receiver and sequence."""
    with closing(sqlite3.connect(site.state / "journal.sqlite")) as database:
        query = "SELECT sequence, receiver, data FROM outbox WHERE kind = ?"
        return {row[:2]: row[2] for row in database.execute(query, (MessageKind.MEAN,))}


@pytest.mark.parametrize("case", CASES)
def test_models_equal_those_of_the_simulation(tmp_path, case):
    nodes, results, simulated = run_beside_simulation(tmp_path, **CASES[case])
    prepared = [record_preparation(node.parts.task) for node in nodes]
    expected = record_preparation(simulated.task)
    for each in prepared:
        torch.testing.assert_close(each.mean, expected.mean, rtol=0, atol=1e-6)
        assert torch.equal(each.whitening, prepared[0].whitening)
    epsilons = [result["privacy"]["guaranteed"] for result in results]
    assert max(epsilons) == pytest.approx(simulated.privacy.guaranteed, rel=1e-9)
    for k, node in enumerate(nodes):
        releases = zip(node.parts.ledger.releases(), simulated.task.ledger.releases(), strict=True)
        assert [(own.step, own.purpose) for own, _ in releases] == [
            (each.step, each.purpose) for each in simulated.task.ledger.releases()
        ]
        assert not node.exchange.tolerates_dropout, k
    tacit.verify(nodes[1].site.state).require()
    raw = simulated.task.data.test_x[:4]
    assert tacit.load(nodes[1].site.state).predict(raw).shape == (4,)


@pytest.mark.parametrize(
    ("case", "kind", "count", "before"),
    [
        ("independent", MessageKind.MEAN, 1, True),
        ("independent", MessageKind.MEAN, 2, False),
        ("paired", MessageKind.MEAN, 2, True),
        ("independent", MessageKind.MIX, 1, True),
        ("independent", MessageKind.MIX, 2, False),
    ],
)
@pytest.mark.parametrize("noise_seed", [3, None])
def test_a_killed_site_repeats_its_statistics(tmp_path, case, kind, count, before, noise_seed):
    if noise_seed is None and (kind, before) != (MessageKind.MEAN, True):
        pytest.skip("secret noise: two kills are sufficient")
    config, files = create_six_sites(tmp_path, noise_seed=noise_seed, **CASES[case])
    nodes, sent = [create_node(file) for file in files], {}
    kill_at(nodes[2], kind, count, before)

    def restart():
        with pytest.raises(Killed):
            nodes[2].go()
        sent.update(mean_messages(nodes[2].site))
        nodes[2] = create_node(files[2])
        nodes[2].go()

    thread = threading.Thread(target=restart, daemon=True)
    thread.start()
    results = run_nodes([node for k, node in enumerate(nodes) if k != 2])
    thread.join(60)
    assert {result["rounds"] for result in results} == {3}
    assert nodes[2].run.t == 3
    assert len(nodes[2].parts.ledger) == len(nodes[0].parts.ledger) == 5
    if kind == MessageKind.MEAN:
        assert sent
    if noise_seed is not None:
        torch.testing.assert_close(stack_models(nodes), from_config(config).go().models, rtol=0, atol=1e-6)
    whitening = [record_preparation(node.parts.task).whitening for node in nodes]
    assert all(torch.equal(each, whitening[0]) for each in whitening)


def test_a_site_needs_the_record_counts_of_all(tmp_path):
    create_small_network(tmp_path / "net", {**BASE, "privacy": {"epsilon": 2.0, "delta": 1e-3, "shares": SHARES}})
    site = SiteConfig.load(tmp_path / "net" / "site-2" / "node.toml")
    assert build_site(site).description.records == (150, 200, 90)
    shutil.rmtree(site.state)
    for k in (1, 2, 3):
        change_network(tmp_path / "net", f"site-{k}", records=None)
    with pytest.raises(TacitError, match=r"privacy\.shares needs records = N of every entry"):
        build_site(SiteConfig.load(tmp_path / "net" / "site-2" / "node.toml"))


def test_a_lost_statistic_is_not_guessed(tmp_path):
    """A site whose ledger lacks the facts of its statistics does not continue with records as they are."""
    _, files = create_six_sites(tmp_path, **CASES["independent"])
    nodes = [create_node(file) for file in files]
    run_nodes(nodes)
    part = build_site(SiteConfig.load(files[1]))
    part.ledger.facts.remove("prepared")
    with pytest.raises(TacitError, match="does not have the statistics that the run has released"):
        create_node(files[1]).create_run()
