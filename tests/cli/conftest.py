"""The command, run in this process: its exit code and what it printed where."""

import sys
from typing import NamedTuple

import pytest

from tacit.cli import main


class Ended(NamedTuple):
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


def setting(*pairs):
    """--set for each of key=value."""
    return [part for pair in pairs for part in ("--set", pair)]


QUICK = setting("rounds=6", "graph.nodes=4", "batch.size=16")
NO_TARGET = setting("privacy.epsilon=")
