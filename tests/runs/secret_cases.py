"""Runs with secret noise, and copies of them together with their records ledger: the same run with the same key."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from tacit.privacy import Mechanism
from tacit.runs import Config, from_config
from tests.runs.cases import SMALL

SECRET = {**SMALL, "noise": "secret", "sharding": "digest", "batch": {"size": 8}}
DELTA = SMALL["privacy"]["delta"]


def secret(*, out=None, resume=False, extend=0, observers=(), **changes):
    """A run with secret noise, with whole sections or keys replaced."""
    config = Config.parse(SECRET | changes)
    return from_config(config, out=out, resume=resume, extend=extend, observers=observers, secret_noise=True)


def copy_of_world(run, folder):
    """Copy a run's folder and the state folder: the state of both after a crash at this moment."""
    shutil.copytree(run, folder / "run")
    shutil.copytree(os.environ["TACIT_STATE"], folder / "state")
    return folder


@contextmanager
def in_world(folder):
    """Use the records ledger of a copy; yields the folder of the run in it."""
    before = os.environ["TACIT_STATE"]
    os.environ["TACIT_STATE"] = str(folder / "state")
    try:
        yield folder / "run"
    finally:
        os.environ["TACIT_STATE"] = before


def journal_of(run):
    """The journal of the run in a folder or of a run."""
    return run.task.ledger.journal.path


@contextmanager
def observed_releases(monkeypatch):
    """Yield a list of (key, step, purpose, bytes) of every value that leaves `Mechanism.release` in the block."""
    seen, real = [], Mechanism.release

    def release(self, bounded):
        value = real(self, bounded)
        seen.append((bounded.context.noise.fingerprint, bounded.step, bounded.purpose, value.numpy().tobytes()))
        return value

    with monkeypatch.context() as patch:
        patch.setattr(Mechanism, "release", release)
        yield seen


def key_of(folder):
    return (Path(folder) / "noise.key").read_bytes()
