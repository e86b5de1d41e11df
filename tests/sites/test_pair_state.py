"""What a site with paired noise keeps on disk: a seized site reveals no earlier round, and no round is repeated with
another value."""

import json
import shutil

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from safetensors.torch import load_file

from tacit.errors import TacitError
from tacit.privacy import NOISE_KEY_FILE, Ledger
from tacit.runs import Observer, from_config
from tacit.sites import create_pair_key
from tacit.sites.build import build_site
from tacit.sites.private_state import LEDGER

from .paired_sites import DYN_PAIRED, THREE, change_network, copy_network, load, other_machine
from .site_networks import RecordingTransport, create_node, create_site_files, run_nodes
from .site_processes import ObservedSite, running_network
from .six_sites import InterruptAfter, create_six_sites
from .small_network import first_release

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def create(folder, **changes):
    """Three sites with real keys and a checkpoint every two rounds."""
    options = {"peer_timeout": 60.0, "checkpoint_every": 2}
    return create_site_files(folder / "net", {**THREE, **changes}, 3, noise_seed=None, **options)


def expand(key, info):
    return HKDFExpand(SHA256(), 32, info).derive(key)


# Forward secrecy


class Seizure(Observer):
    """Copies the whole folder of a site after some rounds, as somebody does who seizes the machine."""

    def __init__(self, folder, rounds, to):
        self._folder, self._rounds, self._to = folder, rounds, to

    def on_round(self, run):
        if run.t == self._rounds:
            shutil.copytree(self._folder, self._to)


def chains(path):
    """The chains of a key file: position and key by name."""
    return {name: (at, bytes.fromhex(key)) for name, (at, key) in json.loads(path.read_bytes())["chains"].items()}


@pytest.mark.parametrize("noise", ["paired", "independent"])
def test_a_seized_site_reveals_no_round_before_its_last_checkpoint(tmp_path, noise):
    """All its keys of earlier rounds are known here. None of them is in any file, nor follows from one that is."""
    privacy = THREE["privacy"] if noise == "paired" else {"epsilon": 3.0, "delta": 1e-4}
    files = create(tmp_path, privacy=privacy)
    folder, seized = files[0].parent, tmp_path / "seized"
    nodes = [create_node(file, observers=[Seizure(folder, 5, seized)] if file is files[0] else []) for file in files]
    first = chains(folder / "state" / NOISE_KEY_FILE)
    names = ["own", "1", "2"] if noise == "paired" else ["own"]
    assert first.keys() == {*names, "shuffles"}
    erased = []
    if noise == "paired":
        pem = (folder / "site-1.pair.key").read_bytes()
        erased += [*pem.splitlines()[1:-1], serialization.load_pem_private_key(pem, None).private_bytes_raw()]
    run_nodes(nodes)
    for name in names:
        key = first[name][1]
        for _ in range(4):  # the last checkpoint before round 5 is that of round 4
            erased += [key, expand(key, b"tacit/noise")]
            key = expand(key, b"tacit/ratchet")
        assert chains(seized / "state" / NOISE_KEY_FILE)[name] == (4, key), "the site can resume"
    contents = [path.read_bytes() for path in seized.rglob("*") if path.is_file()]
    assert len(contents) > 8
    for secret in erased:
        assert not any(secret in data or secret.hex().encode() in data for data in contents)
    assert not (seized / "site-1.pair.key").exists()
    assert chains(folder / "state" / NOISE_KEY_FILE) == {}, "at the end, all keys are erased"


def test_the_private_key_stays_until_the_first_round(tmp_path):
    """Before that, the operator can correct network.toml at all sites."""
    files = create(tmp_path)
    path = files[0].parent / "site-1.pair.key"
    before = build_site(load(files[0])).keys.partners[1].words("noise", np.array([0]), 0, 4)
    change_network(tmp_path / "net", rounds=7)
    after = build_site(load(files[0])).keys.partners[1].words("noise", np.array([0]), 0, 4)
    assert not torch.equal(before, after)
    assert path.exists()
    nodes = [create_node(file) for file in files]
    run = nodes[0].create_run()
    nodes[0].network.begin = lambda t: t
    assert run._begins()
    assert not path.exists(), "before anything is released"
    assert len(nodes[0].parts.ledger) == 0
    for node in nodes:
        node.journal.close()


# No round twice with different values


def test_a_lost_state_ends_the_epoch(tmp_path):
    files = create(tmp_path)
    run_nodes([create_node(file, observers=[InterruptAfter(3)]) for file in files])
    state = files[1].parent / "state"
    shutil.rmtree(state)
    with pytest.raises(TacitError, match=r"site-2\.pair\.key is missing\. A site erases it when an epoch begins"):
        build_site(load(files[1]))
    shutil.rmtree(state)
    # A new epoch needs new keys of all sites.
    for file in files:
        _, public = create_pair_key(load(file))
        change_network(tmp_path / "net", file.parent.name, public_key=public)
    change_network(tmp_path / "net", epoch=2)
    for file in files:
        shutil.rmtree(file.parent / "state", ignore_errors=True)
    results = run_nodes([create_node(file) for file in files])
    assert {result["rounds"] for result in results} == {6}
    assert all(result["privacy"]["runs"] == 2 for result in results), "the rounds of the first epoch still count"


@pytest.mark.parametrize("restored", ["private key", "everything"])
def test_backups_from_before_the_first_round_are_refused(tmp_path, restored):
    """The private key, or the whole site with it, from a backup: the values of the epoch are known outside."""
    files = create(tmp_path)
    for file in files:
        build_site(load(file))
    backup = shutil.copytree(files[1].parent, tmp_path / "backup")
    run_nodes([create_node(file, observers=[InterruptAfter(3)]) for file in files])
    shutil.rmtree(files[1].parent / "state")
    if restored == "everything":
        shutil.rmtree(files[1].parent)
        shutil.copytree(backup, files[1].parent)
    else:
        shutil.copy(backup / "site-2.pair.key", files[1].parent)
    with pytest.raises(TacitError, match=r"is an older copy of this run.* epoch 1 has ended for all sites") as error:
        build_site(load(files[1]))
    assert "create new keys with tacit network key, and raise epoch in network.toml" in str(error.value)


def test_an_older_state_is_refused_before_anything_is_sent(tmp_path):
    """Without any neighbour: the site finds it out alone."""
    files = create(tmp_path)
    state, copy = files[1].parent / "state", tmp_path / "copy"
    nodes = [create_node(file, observers=[Seizure(state, 2, copy)] if file is files[1] else []) for file in files]
    run_nodes(nodes)
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    with pytest.raises(TacitError, match=r"is an older copy of this run: its ledger lacks releases"):
        build_site(load(files[1]))


def test_an_older_journal_beside_newer_keys_is_refused(tmp_path):
    files = create(tmp_path)
    state, copy = files[1].parent / "state", tmp_path / "copy"
    nodes = [create_node(file, observers=[Seizure(state, 2, copy)] if file is files[1] else []) for file in files]
    run_nodes(nodes)
    for name in ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"):
        (state / name).unlink(missing_ok=True)
        if (copy / name).exists():
            shutil.copy(copy / name, state / name)
    node = create_node(files[1])
    with pytest.raises(TacitError, match=r"journal\.sqlite is an older copy: it resumes at round \d, but .*noise\.key"):
        node.create_run()
    node.journal.close()


def test_another_value_of_the_same_step_is_refused(tmp_path):
    """The state after a crash before the ledger was on disk, and records that give another gradient."""
    files = create(tmp_path)
    site = load(files[0])
    first = first_release(site)
    (site.state / LEDGER).unlink()
    Ledger(site.state / LEDGER, durable=True)
    with pytest.raises(TacitError, match="is an older copy of this run"):
        first_release(load(files[0]))
    assert first.isfinite().all()


def test_a_repeated_value_must_be_the_same(tmp_path):
    files = create(tmp_path)
    part = build_site(load(files[0]))
    (planned,) = part.algorithm.privacy.releases(0, part.task.nodes, part.task.sampling)
    clip = part.algorithm.gradient_clip(0)
    first = planned.mechanism.release(part.task.gradient(part.task.initial(), 0, clip)).clone()
    for start, same in ((part.task.initial(), True), (part.task.initial() + torch.linspace(0, 1, part.task.d), False)):
        part.ledger.flush()
        part.ledger.journal.close()
        part = build_site(load(files[0]))
        part.ledger.repeat(0)
        again = part.task.gradient(start, 0, clip)
        if same:
            assert torch.equal(planned.mechanism.release(again), first)
        else:
            with pytest.raises(TacitError, match=r"would release another value of .gradient. than before"):
                planned.mechanism.release(again)
            assert again._value.isnan().all()


def test_the_journal_outside_is_needed_to_resume(tmp_path):
    files = create(tmp_path)
    run_nodes([create_node(file, observers=[InterruptAfter(3)]) for file in files])
    with other_machine(tmp_path / "elsewhere"), pytest.raises(TacitError, match="Set TACIT_STATE to the folder"):
        build_site(load(files[0]))


# Kills


def check_killed_sites(folder, rounds, kills, **changes):
    """Check that sites with real keys that are killed end exactly like a copy of them that runs undisturbed."""
    files = create(folder, rounds=rounds, evaluate_every=rounds, **changes)
    for file in files:
        build_site(load(file)).ledger.journal.close()  # creates the keys
    undisturbed = copy_network(folder / "net", folder / "undisturbed")
    with other_machine(folder / "state"):
        nodes = [create_node(file, RecordingTransport) for file in undisturbed]
        run_nodes(nodes, 300.0)
    with running_network(files) as network:
        network.kill_repeatedly(kills, seed=1)
        network.wait_until_finished()
    for site, node, file in zip(network.sites, nodes, undisturbed, strict=True):
        expected = ObservedSite(file)
        assert site.result_files == expected.result_files != {}
        assert site.ledger_rows == expected.ledger_rows != []
        assert {(peer, digest) for (peer, *_), digest in site.sent.items()} <= node.transport.sent
        assert chains(site.state / NOISE_KEY_FILE) == {}
    assert network.kills >= kills
    print(f"paired noise, {network}: all models equal")


def test_killed_sites_repeat_the_same_bytes(tmp_path):
    check_killed_sites(tmp_path, rounds=20, kills=4)


@pytest.mark.full
@pytest.mark.parametrize("sampling", ["poisson", "permutation"])
def test_killed_sites_repeat_the_same_bytes_long(tmp_path, sampling):
    batch = {"size": 8, "sampling": sampling}
    check_killed_sites(tmp_path, rounds=100, kills=50, batch=batch)


@pytest.mark.full
def test_killed_sites_equal_the_simulation(tmp_path):
    """With noise from a seed, six sites that are killed have the models of `tacit train`."""
    changes = {**DYN_PAIRED, "rounds": 60, "evaluate_every": 60}
    config, files = create_six_sites(tmp_path, **changes)
    with running_network(files) as network:
        network.kill_repeatedly(20, seed=2)
        network.wait_until_finished()
    models = torch.cat([load_file(site.state / "models.safetensors")["models"] for site in network.sites])
    torch.testing.assert_close(models, from_config(config).go().models, rtol=0, atol=1e-5)
