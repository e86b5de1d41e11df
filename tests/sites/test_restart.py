"""A site that restarts: which state it resumes from, the ε that it reports, and which state it refuses."""

import json
import shutil

import pytest

from tacit.errors import TacitError
from tacit.privacy import guarantee
from tacit.runs import Observer

from .site_networks import create_node, run_nodes
from .six_sites import DIRECTED, DYN_D2P, create_six_sites

pytestmark = pytest.mark.usefixtures("one_torch_thread")

LISTED_SCHEDULES = {"name": "d2p", "clip": [1.0] * 6, "noise_multiplier": [1.0] * 6}
PPGL = {"name": "ppgl", "beta": 0.2, "rho": 1.0, "lam": 0.05, "clip": 20.0, "release": "rounds", "K": 1}


def make_outdated(file, last_round):
    """Delete the checkpoint and all operations after a round from a site's journal."""
    journal = create_node(file).journal
    journal._db.execute("DELETE FROM operation WHERE round > ?", (last_round,))
    journal._db.execute("DELETE FROM checkpoint")
    journal.close()


@pytest.fixture(scope="module")
def finished_network(tmp_path_factory):
    """The folder of a network that has finished its run, which tests copy."""
    folder = tmp_path_factory.mktemp("finished")
    _, files = create_six_sites(folder, **DYN_D2P)
    run_nodes([create_node(file) for file in files])
    return folder


@pytest.fixture
def finished(finished_network, tmp_path):
    """node.toml and state folder of the first site of a finished network."""
    shutil.copytree(finished_network, tmp_path / "copy")
    folder = tmp_path / "copy" / "net" / "site-1"
    return folder / "node.toml", folder / "state"


def test_missing_journal_is_refused(finished):
    """The run would start again, with other states but with noise that was released before."""
    file, state = finished
    for path in state.glob("journal.sqlite*"):
        path.unlink()
    with pytest.raises(TacitError, match=r"journal.sqlite is older than the ledger"):
        create_node(file).go()
    assert not (state / "result.json").exists(), "its ε belongs to the earlier run"


def test_outdated_journal_is_refused(finished):
    file, _ = finished
    make_outdated(file, last_round=1)
    with pytest.raises(TacitError, match=r"journal.sqlite is older than the ledger"):
        create_node(file).create_run()


def test_released_round_that_was_not_sent_is_accepted(finished):
    """A crash between the ledger and the journal leaves one such round."""
    file, _ = finished
    make_outdated(file, last_round=4)
    assert create_node(file).create_run().t == 0


def test_outdated_copy_of_the_state_folder_is_refused_for_good(tmp_path):
    """Its ledger lacks releases that the other sites have received."""
    _, files = create_six_sites(tmp_path, peer_timeout=5.0, **DYN_D2P)
    state, copy = files[0].parent / "state", tmp_path / "copy"

    class CopyState(Observer):
        def on_round(self, run):
            if run.t == 2 and not copy.exists():
                shutil.copytree(state, copy)

    run_nodes([create_node(files[0], observers=[CopyState()]), *map(create_node, files[1:])])
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    results = run_nodes([create_node(file) for file in files], expected_errors=TacitError)
    assert "The state folder is an outdated copy" in str(results[0])
    assert not (state / "result.json").exists()
    with pytest.raises(TacitError, match="The state folder is an outdated copy"):
        create_node(files[0]).go()


def test_reported_epsilon_is_never_below_the_ledger(finished):
    node = create_node(finished[0])
    node.create_run()
    spent = float(guarantee(node.parts.ledger.releases(), node.parts.delta).max())
    assert node.status().round == 6
    assert node.status().epsilon >= spent > 0


def test_reported_epsilon_includes_the_rounds_until_the_next_evaluation(tmp_path, monkeypatch):
    """The site rejoins in round 50 of 60, after the other sites continued without it."""
    _, files = create_six_sites(tmp_path, **DYN_D2P, rounds=60)
    node = create_node(files[0])
    run = node.create_run()
    before = run.epsilon_bound
    monkeypatch.setattr(node.network, "begin", lambda t: max(t, 50))
    assert run._begins()
    assert run.t == 50
    assert json.loads(node.journal.load_checkpoint()[0])["t"] == 50, "on disk before any message is sent"
    assert run.epsilon_bound > 2 * before


def test_graph_learning_reports_the_epsilon_of_all_rounds(tmp_path):
    changes = {"privacy": {"epsilon": 2.0, "delta": 1e-5}, "graph": {"name": "complete", "nodes": 6}}
    _, files = create_six_sites(tmp_path, algorithm=PPGL, **changes)
    node = create_node(files[0])
    node.create_run()
    assert node.status().epsilon == node.status().planned == pytest.approx(2.0, rel=1e-3)


def test_finished_site_can_be_restarted(tmp_path):
    """Its last messages may still be needed. Schedules of 6 rounds have no value for round 6."""
    _, files = create_six_sites(tmp_path, algorithm=LISTED_SCHEDULES, graph=DIRECTED)
    run_nodes([create_node(file) for file in files])
    assert create_node(files[0]).create_run().t == 6
