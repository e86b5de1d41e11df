"""The state folder of a site can be verified like the folder of a run, also after a restart."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
import torch
from safetensors.torch import load_file

import tacit
from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.privacy import read_ledger
from tacit.reports import ReportPage, write_run_page
from tacit.runs import verify

from .site_networks import create_node, create_site_files, run_nodes
from .six_sites import DYN_D2P, create_six_sites

pytestmark = pytest.mark.usefixtures("one_torch_thread")
PPGL = {"name": "ppgl", "beta": 0.2, "rho": 1.0, "lam": 0.05, "clip": 20.0, "release": "rounds", "K": 1}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The state folders of a network that has finished its run."""
    _, files = create_six_sites(tmp_path_factory.mktemp("sites"), **DYN_D2P)
    run_nodes([create_node(file, observers=[ReportPage()]) for file in files])
    return [file.parent / "state" for file in files]


def test_finished_sites_are_verified(states, tmp_path):
    for node, state in enumerate(states):
        found = verify(state)
        assert found.differences == ()
        assert found.facts.nodes == [node, 1]
        assert found.facts.simulated
        assert "a site does not have the whole network" in found.unchecked[0]
    html = write_run_page([states[0]], tmp_path / "page.html").read_text()
    assert "<dt>Verified</dt>" in html
    assert "algorithm.clip" in html


def test_a_site_writes_its_own_model(states):
    """It is not a mean: sites exchange nothing for it."""
    for node, state in enumerate(states):
        loaded = tacit.load(state)
        (own,) = load_file(state / "models.safetensors")["models"]
        trained = loaded.trained()
        assert torch.equal(torch.cat([value.flatten() for value in trained.module.state_dict().values()]), own)
        assert (trained.description.node, trained.description.complete) == (node, True)
        privacy = trained.description.privacy
        assert (privacy.covered, privacy.protects) == (True, "this site")
        assert privacy.guaranteed == loaded.privacy.guaranteed
        assert loaded.predict(torch.zeros(2, *trained.inputs)).shape == (2,)
    with pytest.raises(TacitError, match="has no model of node 1; it has the nodes 0 to 0"):
        tacit.load(states[0]).model(1)


def test_edits_in_the_folder_of_a_site_are_found(states, tmp_path):
    state = shutil.copytree(states[1], tmp_path / "state")
    result = json.loads((state / "result.json").read_text())
    result["privacy"]["guaranteed"] /= 2
    (state / "result.json").write_text(json.dumps(result))
    assert any(line.startswith("result.json: privacy: guaranteed is ") for line in verify(state).differences)
    shutil.copy(states[1] / "result.json", state)
    assert verify(state).differences == ()
    for path in states[2].glob("ledger.sqlite*"):
        shutil.copy(path, state)
    assert "nodes.csv: the nodes are not those of the run" in verify(state).differences


def test_restarted_site_is_verified(tmp_path):
    """The sites are interrupted, restarted, and restarted once more after their end."""
    from tacit.runs import Observer

    class Interrupt(Observer):
        def on_round(self, run):
            if run.t == 3:
                raise KeyboardInterrupt

    _, files = create_six_sites(tmp_path, **DYN_D2P)
    run_nodes([create_node(file, observers=[ReportPage(), Interrupt()]) for file in files])
    for _ in range(2):
        run_nodes([create_node(file, observers=[ReportPage()]) for file in files])
    for file in files:
        found = verify(file.parent / "state")
        assert found.differences == ()
        rounds = [start.round for start in found.facts.starts]
        assert (len(rounds), rounds[0], rounds[-1]) == (3, 0, 6)


def test_site_with_a_changed_ledger_does_not_start(tmp_path):
    _, files = create_six_sites(tmp_path, **DYN_D2P)
    run_nodes([create_node(file) for file in files])
    with closing(sqlite3.connect(files[0].parent / "state/ledger.sqlite")) as database:
        database.execute("DELETE FROM release WHERE step = 2")
        database.commit()
    with pytest.raises(TacitError, match=r"ledger.sqlite was changed: its releases are not those of the run"):
        create_node(files[0]).create_run()


def test_released_models_of_a_site_with_secret_noise_can_be_checked_by_anyone(tmp_path):
    """The guarantee covers them, so that a digest without a key reveals nothing else."""
    config, _ = create_six_sites(tmp_path / "config", **DYN_D2P)
    files = create_site_files(tmp_path / "net", config.as_dict(), 6, noise_seed=None)
    run_nodes([create_node(file, observers=[ReportPage()]) for file in files])
    state = files[0].parent / "state"
    found = verify(state)
    assert found.differences == ()
    assert (found.facts.simulated, found.facts.seed) == (False, None)
    for name in ("model.safetensors", "models.safetensors"):
        before = (state / name).read_bytes()
        (state / name).write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert verify(state).differences == (f"{name} was changed after the run had ended",)
        (state / name).write_bytes(before)


def test_digests_of_models_that_were_not_released_need_the_key_of_the_site(tmp_path):
    changes = {"algorithm": {"name": "dp-norm", "sigma": 0.5, **algorithms.example("dp-norm")}}
    changes["graph"] = {"name": "ring", "nodes": 6}
    config, _ = create_six_sites(tmp_path / "config", **changes)
    files = create_site_files(tmp_path / "net", config.as_dict(), 6, noise_seed=None)
    run_nodes([create_node(file, observers=[ReportPage()]) for file in files])
    found = verify(files[0].parent / "state")
    assert found.differences == ()
    for name in ("model.safetensors", "models.safetensors"):
        assert any(line.startswith(f"{name}: its digest can be computed only with") for line in found.unchecked)
    privacy = tacit.load(files[0].parent / "state").trained().description.privacy
    assert (privacy.covered, privacy.guaranteed) == (False, None)


def test_ledger_of_graph_learning_records_config_and_software(tmp_path):
    changes = {"privacy": {"epsilon": 2.0, "delta": 1e-5}, "graph": {"name": "complete", "nodes": 6}}
    _, files = create_six_sites(tmp_path, algorithm=PPGL, **changes)
    run_nodes([create_node(file) for file in files])
    facts = read_ledger(files[0].parent / "state/ledger.sqlite").facts.read()
    assert facts["config"]["algorithm"]["name"] == "ppgl"
    assert facts["starts"][0]["tacit"]
    assert facts["ended"]
    assert facts["simulated"] is True
