"""A site that starts again: what it goes on from, what it shows of ε, and what it must refuse to go on from."""

import json
import shutil

import pytest

from tacit.errors import TacitError
from tacit.privacy import guarantee
from tacit.runs import Observer
from tacit.sites.build import build_site
from tacit.sites.node import Node
from tacit.sites.site_config import SiteConfig
from tests.sites.test_sites import DIRECTED, TARGET, network, quick, started, worked  # noqa: F401  (a fixture)

LISTED = {"name": "d2p", "clip": [1.0] * 6, "noise_multiplier": [1.0] * 6}
GRAPHS = {
    "algorithm": {"name": "ppgl", "beta": 0.2, "rho": 1.0, "lam": 0.05, "clip": 20.0, "release": "rounds", "K": 1}
}


def spent(node):
    """What the ledger holds, without the run's own arithmetic."""
    return float(guarantee(node.parts.ledger.releases(), node.parts.delta).max())


def again(made, site=0):
    return Node(build_site(SiteConfig.load(made.nodes[site])))


def forget(made, after):
    """Make the journal one that knows of no later round, and has no checkpoint."""
    journal = again(made).journal
    journal._db.execute("DELETE FROM operation WHERE round > ?", (after,))
    journal._db.execute("DELETE FROM checkpoint")
    journal.close()


@pytest.fixture
def ended(tmp_path):
    """A network whose run is over, and the folder of its first site."""
    _, made = network(tmp_path, algorithm={"name": "dyn-d2p", "lr": 0.5}, privacy=TARGET, graph=DIRECTED)
    worked(started(made))
    return made, made.nodes[0].parent / "state"


def test_a_lost_journal_is_refused(ended):
    """Rounds would be made again from the start, on other states, with noise that has left already."""
    made, state = ended
    for file in state.glob("journal.sqlite*"):
        file.unlink()
    with pytest.raises(TacitError, match=r"journal.sqlite is older than the ledger"):
        again(made).go()
    assert not (state / "result.json").exists(), "what it said of ε is of an earlier end"


def test_an_older_journal_is_refused(ended):
    made, _ = ended
    forget(made, after=1)
    with pytest.raises(TacitError, match=r"journal.sqlite is older than the ledger"):
        again(made).go()


def test_one_round_that_was_written_down_and_not_said_is_no_older_journal(ended):
    made, _ = ended
    forget(made, after=4)
    assert again(made).create_run().t == 0


def test_a_copy_whose_ledger_lacks_what_others_have_heard_is_refused_for_good(tmp_path):
    _, made = network(tmp_path, algorithm={"name": "dyn-d2p", "lr": 0.5}, privacy=TARGET, graph=DIRECTED, patience=5.0)
    first = made.nodes[0].parent / "state"

    class CopyState(Observer):
        def on_round(self, run):
            if run.t == 2 and not (tmp_path / "older").exists():
                shutil.copytree(first, tmp_path / "older")

    worked_all(started(made, observers={0: [CopyState()]}))
    shutil.rmtree(first)
    shutil.copytree(tmp_path / "older", first)
    told = worked_all(started(made), TacitError)
    assert "Its ledger lacks releases" in str(told[0])
    assert not (first / "result.json").exists(), "of a ledger that lacks something nothing is told"
    with pytest.raises(TacitError, match="an outdated copy"):
        again(made).go()


def worked_all(nodes, errors=()):
    """What each told, or the error that it ended with."""
    from concurrent.futures import ThreadPoolExecutor

    def one(node):
        try:
            return node.go()
        except errors as error:
            return error

    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(one, nodes))


def test_what_is_shown_of_epsilon_is_never_below_the_ledger(ended):
    made, _ = ended
    node = again(made)
    node.create_run()
    assert node.status().round == 6
    assert node.status().epsilon >= spent(node) > 0


def test_rounds_that_were_left_out_are_counted_ahead(tmp_path, monkeypatch):
    """Of 60 rounds the first 50 were made by the others: what is shown covers the rounds until the next evaluation."""
    _, made = network(tmp_path, algorithm={"name": "dyn-d2p", "lr": 0.5}, privacy=TARGET, graph=DIRECTED, rounds=60)
    node = again(made)
    run = node.create_run()
    before = run.epsilon_bound
    monkeypatch.setattr(node.network, "begin", lambda t: max(t, 50))
    assert run._begins()
    assert run.t == 50
    assert json.loads(node.journal.load_checkpoint()[0])["t"] == 50, "on disk before anybody is told"
    assert run.epsilon_bound > 2 * before


def test_a_graph_shows_what_all_its_rounds_cost(tmp_path):
    table = {**GRAPHS, "privacy": {"epsilon": 2.0, "delta": 1e-5}, "graph": {"name": "complete", "nodes": 6}}
    _, made = network(tmp_path, **table)
    node = again(made)
    node.create_run()
    assert node.status().epsilon == node.status().planned == pytest.approx(2.0, rel=1e-3)


def test_one_that_is_done_may_be_started_again(tmp_path):
    """Its last messages may still be needed; a schedule has no number for a round after the last."""
    _, made = network(tmp_path, algorithm=LISTED, graph=DIRECTED)
    worked(started(made))
    assert again(made).create_run().t == 6
