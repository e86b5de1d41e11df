"""Property tests draw the same examples every time, so that a verdict is about the change.

`--hypothesis-profile=explore` draws new ones.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from tacit.cli import main

settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.load_profile("steady")


BESIDE = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def data_folder(monkeypatch):
    """The folder of the published data sets; where there is none, the test is skipped."""
    found = Path(os.environ.get("TACIT_DATA") or BESIDE)
    if not found.is_dir():
        pytest.skip(f"no data sets: TACIT_DATA is not set and there is no {BESIDE}")
    monkeypatch.setenv("TACIT_DATA", str(found.resolve()))
    return found


class Ended(NamedTuple):
    """The command, run in this process: its exit code and what it printed where."""

    code: int
    out: str
    err: str


@pytest.fixture
def tacit(monkeypatch, capsys, tmp_path):
    """`tacit("train", "--json")` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        return Ended(end.value.code or 0, *capsys.readouterr())

    return run
