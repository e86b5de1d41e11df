"""Keys that change every round: the same noise again as long as it may be needed, and never after that."""

import hashlib
import json
import os
import stat

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tacit.errors import TacitError
from tacit.privacy import NOISE_KEY_FILE, Gaussian, Ledger, Noise, RatchetedKeys, Release, Sampling, private_files
from tacit.privacy.ratchet import Ratchet, RatchetedNoise
from tacit.tasks.sampling import Sampler

KEY = bytes(range(32))
NODE = np.array([3])


def words(noise, t=None, purpose="noise", step=0):
    if t is not None:
        noise.begin_round(t)
    return tuple(noise.words(purpose, NODE, step, 8)[0].tolist())


def expand(key, info):
    return HKDFExpand(SHA256(), 32, info).derive(key)


@pytest.fixture
def keys(tmp_path):
    return RatchetedKeys.open(tmp_path, Ledger(), b"run")


class Partners:
    """The keys of two partners, from a secret that can be erased."""

    def __init__(self):
        self.erased = 0

    def derive(self):
        return {1: b"1" * 32, 7: b"7" * 32}

    def erase(self):
        self.erased += 1


# The chain


def test_the_chain_is_hkdf():
    """Computed here once more, step by step."""
    key = KEY
    for t in range(4):
        expected = Noise.from_key(expand(key, b"tacit/noise")).words("noise", NODE, 5, 8)[0].tolist()
        assert words(RatchetedNoise(KEY, Ratchet(0, KEY)), t, step=5) == tuple(expected)
        key = expand(key, b"tacit/ratchet")


def test_rounds_purposes_and_steps_have_different_noise():
    noise = RatchetedNoise(KEY, Ratchet(0, KEY))
    drawn = [words(noise, t, purpose, step) for t in range(3) for purpose in ("noise", "batch") for step in range(3)]
    assert len(set(drawn)) == len(drawn)


def test_any_order_of_rounds_gives_the_same_noise():
    noise = RatchetedNoise(KEY, Ratchet(0, KEY))
    forwards = [words(noise, t) for t in range(9)]
    assert [words(noise, t) for t in (8, 2, 5, 0)] == [forwards[t] for t in (8, 2, 5, 0)]
    later = RatchetedNoise(KEY, Ratchet(0, KEY).advanced(4))
    assert [words(later, t) for t in (4, 8, 6)] == [forwards[t] for t in (4, 8, 6)]


def test_erased_positions_are_refused():
    noise = RatchetedNoise(KEY, Ratchet(0, KEY).advanced(4))
    with pytest.raises(TacitError, match="The noise key of position 3 is erased; the first that is left is 4"):
        words(noise, 3)


# The file


def test_the_file_is_private_and_opens_again(keys, tmp_path):
    path = tmp_path / NOISE_KEY_FILE
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    again = RatchetedKeys.open(tmp_path, Ledger(), b"run")
    assert words(again.noise, 2) == words(keys.noise, 2)
    assert again.noise.fingerprint == keys.noise.fingerprint
    assert again.noise.keyed_digest(b"x") == keys.noise.keyed_digest(b"x")


def test_partners_come_from_the_secret_once(tmp_path):
    source = Partners()
    first = RatchetedKeys.open(tmp_path, Ledger(), b"run", source)
    source.derive = None  # a second start reads the file
    second = RatchetedKeys.open(tmp_path, Ledger(), b"run", source)
    assert set(first.partners) == set(second.partners) == {1, 7}
    for partner in (1, 7):
        assert words(first.partners[partner], 3) == words(second.partners[partner], 3)
    assert words(first.partners[7], 0) == words(Noise.from_key(expand(b"7" * 32, b"tacit/noise")))
    assert source.erased == 0, "nothing is released before the first round"
    second.begin_round(0)
    second.begin_round(1)
    assert source.erased == 1


def reachable(folder):
    """The noise of every key that anybody finds in a file of the folder, and of every key that follows from one."""
    found = set()
    for path in folder.iterdir():
        table = json.loads(path.read_bytes())
        for text in (table["digest_key"], table["binding"], *(key for _, key in table["chains"].values())):
            key = bytes.fromhex(text)
            for _ in range(20):
                found |= {words(Noise.from_key(use)) for use in (key, expand(key, b"tacit/noise"))}
                key = expand(key, b"tacit/ratchet")
    return found


def test_erased_keys_cannot_be_computed_from_the_files(tmp_path):
    """Whoever gets the folder after a checkpoint of round 5 computes rounds from 5 on, and none before."""
    source = Partners()
    keys = RatchetedKeys.open(tmp_path, Ledger(), b"run", source)
    noises = {"own": keys.noise, 1: keys.partners[1], 7: keys.partners[7]}
    before = {name: [words(noise, t) for t in range(8)] for name, noise in noises.items()}
    keys.begin_round(5)
    assert {row for rows in before.values() for row in rows} <= reachable(tmp_path)
    keys.erase_before(5)
    assert {row for rows in before.values() for row in rows[5:]} <= reachable(tmp_path)
    assert not {row for rows in before.values() for row in rows[:5]} & reachable(tmp_path)
    again = RatchetedKeys.open(tmp_path, Ledger(), b"run", source)
    assert again.position == 5
    assert [words(again.noise, t) for t in (5, 7)] == [before["own"][5], before["own"][7]]
    assert [words(keys.partners[7], t) for t in (5, 7)] == [before[7][5], before[7][7]]
    for noise in (again.noise, again.partners[1], keys.noise, keys.partners[1]):
        with pytest.raises(TacitError, match="erased"):
            words(noise, 4)


def test_old_contents_are_overwritten(keys, tmp_path, monkeypatch):
    """The file that held erased keys has zeros before its name goes."""
    path, seen = tmp_path / NOISE_KEY_FILE, []
    handle, size = path.open("rb"), path.stat().st_size

    def erase(path):
        private_files_erase(path)
        seen.append(path.name)

    private_files_erase = private_files.erase_file
    monkeypatch.setattr(private_files, "erase_file", erase)
    keys.begin_round(1)
    keys.erase_before(1)
    assert seen == ["noise.key.old"]
    with handle:
        assert handle.read() == bytes(size)
    assert [each.name for each in tmp_path.iterdir()] == [NOISE_KEY_FILE]


@pytest.mark.parametrize("calls", range(1, 12))
def test_a_crash_while_keys_are_replaced(tmp_path, monkeypatch, calls):
    """At every step on disk, the file has the old or the new keys, and the next start completes the erasure."""
    keys = RatchetedKeys.open(tmp_path, Ledger(), b"run")
    expected = [words(keys.noise, t) for t in range(6)]
    keys.begin_round(3)
    left = [calls]

    def crashing(function):
        def call(*args, **options):
            left[0] -= 1
            if left[0] == 0:
                raise MemoryError  # not an error that anybody handles
            return function(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("link", "replace", "fsync", "open"):
            patch.setattr(os, name, crashing(getattr(os, name)))
        try:
            keys.erase_before(3)
            crashed = False
        except MemoryError:
            crashed = True
    again = RatchetedKeys.open(tmp_path, Ledger(), b"run")
    assert again.position in ((0, 3) if crashed else (3,))
    assert [words(again.noise, t) for t in (3, 5)] == [expected[3], expected[5]]
    assert [path.name for path in tmp_path.iterdir()] == [NOISE_KEY_FILE]
    again.begin_round(4)
    again.erase_before(4)
    assert words(again.noise, 4) == expected[4]


def test_the_end_leaves_only_the_key_of_digests(keys, tmp_path):
    digest = keys.noise.keyed_digest(b"x")
    keys.begin_round(0)
    words(keys.noise, 0)
    keys.erase_all()
    keys.erase_all()
    assert json.loads((tmp_path / NOISE_KEY_FILE).read_bytes())["chains"] == {}
    again = RatchetedKeys.open(tmp_path, Ledger(), b"run")
    assert again.position is None
    assert again.noise.keyed_digest(b"x") == digest
    again.erase_before(3)
    for noise in (keys.noise, again.noise):
        with pytest.raises(TacitError, match="erased"):
            words(noise, 10**6)


def test_digests_do_not_depend_on_the_noise(keys, tmp_path):
    """The key of digests stays, so it must not give any other key away."""
    table = json.loads((tmp_path / NOISE_KEY_FILE).read_bytes())
    identity = bytes.fromhex(table["digest_key"])
    chains = {bytes.fromhex(key) for _, key in table["chains"].values()}
    assert len(chains | {identity}) == 3
    assert keys.noise.fingerprint == hashlib.blake2b(key=identity, digest_size=16, person=b"tacit run").hexdigest()


@pytest.mark.parametrize("damage", [b"", b"short", b"{}", b"[]", b'{"format": 1, "digest_key": "00", "chains": {}}'])
def test_damaged_files_are_refused(keys, tmp_path, damage):
    (tmp_path / NOISE_KEY_FILE).write_bytes(damage)
    with pytest.raises(TacitError, match=r"noise\.key is damaged\. Restore it to resume"):
        RatchetedKeys.open(tmp_path, Ledger(), b"run")


def test_keys_of_another_run(keys, tmp_path):
    """They are replaced before the first release, and refused after it."""
    ledger = Ledger()
    other = RatchetedKeys.open(tmp_path, ledger, b"other")
    assert words(other.noise) != words(keys.noise)
    ledger.record(Release(0, "gradient", Gaussian(1.0), Sampling("none", np.ones(1), "add-remove")))
    RatchetedKeys.open(tmp_path, ledger, b"other")
    with pytest.raises(TacitError, match="belongs to another run, or the settings or the data have changed"):
        RatchetedKeys.open(tmp_path, ledger, b"run")
    (tmp_path / NOISE_KEY_FILE).unlink()
    with pytest.raises(TacitError, match=r"noise\.key is missing"):
        RatchetedKeys.open(tmp_path, ledger, b"other")


# Draws of records


def sampler(noise, kind, epochs=1):
    return Sampler(np.array([12]), 4, kind, NODE, noise, epochs=epochs)


@pytest.mark.parametrize("kind", ["poisson", "without-replacement"])
def test_draws_are_erased_with_the_noise(keys, kind):
    drawn = []
    for t in range(4):
        keys.begin_round(t)
        drawn.append(sampler(keys.noise, kind).draw(t).records)
    keys.erase_before(2)
    keys.begin_round(3)
    assert torch.equal(sampler(keys.noise, kind).draw(3).records, drawn[3])
    keys.begin_round(1)
    with pytest.raises(TacitError, match="erased"):
        sampler(keys.noise, kind).draw(1)


def run_rounds(keys, rounds, epochs, steps=2, interrupted=None):
    """Draw `steps` batches per round by permutation; return them by their numbers."""
    found, drawn = sampler(keys.noise, "permutation", epochs), {}
    for t in rounds:
        keys.begin_round(t)
        for step in range(t * steps, (t + 1) * steps):
            drawn[step] = found.draw(step).records
            if step == interrupted:
                return drawn
    return drawn


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_shuffle_lasts_over_checkpoints_and_restarts(keys, tmp_path, epochs):
    """A record is in one batch per epoch only if an epoch has one shuffle, whatever is erased and restarted within."""
    unbroken = run_rounds(keys, range(12), epochs)
    for start in range(1, 12):
        folder = tmp_path / str(start)
        folder.mkdir()
        (folder / NOISE_KEY_FILE).write_bytes((tmp_path / NOISE_KEY_FILE).read_bytes())
        first = RatchetedKeys.open(folder, Ledger(), b"run")
        run_rounds(first, range(start), epochs)
        first.erase_before(start)
        again = RatchetedKeys.open(folder, Ledger(), b"run")
        repeated = run_rounds(again, range(start, 12), epochs)
        assert all(torch.equal(records, unbroken[step]) for step, records in repeated.items())
        shuffle = (start * 2 - 1) // 3 // epochs
        assert json.loads((folder / NOISE_KEY_FILE).read_bytes())["chains"]["shuffles"][0] == shuffle


@pytest.mark.parametrize("interrupted", range(2, 24))
def test_an_interrupted_round_is_repeated_with_its_first_shuffle(keys, tmp_path, interrupted):
    """A round may begin in one epoch and end in the next."""
    original = (tmp_path / NOISE_KEY_FILE).read_bytes()
    unbroken = run_rounds(keys, range(12), 1)
    (tmp_path / NOISE_KEY_FILE).write_bytes(original)
    broken = RatchetedKeys.open(tmp_path, Ledger(), b"run")
    t = interrupted // 2
    run_rounds(broken, range(t + 1), 1, interrupted=interrupted)
    broken.erase_before(t)
    again = RatchetedKeys.open(tmp_path, Ledger(), b"run")
    repeated = run_rounds(again, range(t, 12), 1)
    assert all(torch.equal(records, unbroken[step]) for step, records in repeated.items())


def test_nodes_with_different_shuffles(keys):
    """Nodes with fewer batches shuffle more often."""
    nodes, sizes = np.array([3, 4]), np.array([8, 20])
    found = Sampler(sizes, 4, "permutation", nodes, keys.noise)
    alone = [
        Sampler(sizes[row : row + 1], 4, "permutation", nodes[row : row + 1], keys.noise) for row in range(len(nodes))
    ]
    for step in range(12):
        together = found.draw(step).records
        for row, each in enumerate(alone):
            assert torch.equal(each.draw(step).records[0], together[row])
