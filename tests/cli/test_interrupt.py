"""Ctrl-C in the first seconds of a command: exit code 130, one line, no traceback, nothing half-written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.cli.interrupt import exit_on_ctrl_c
from tests.cli.conftest import QUICK
from tests.helpers import accept_ctrl_c

COMMANDS = {
    "train": ["train", *QUICK],
    "compare": ["compare", "sgp", "const-d2p", "--epsilon", "2", "--jobs", "1", *QUICK],
    "sweep": ["sweep", "--grid", "lr=0.1,0.2", "--workers", "1", *QUICK],
    "audit": ["audit", "--trials", "40", "--rounds", "1", *QUICK],
    "reproduce": ["reproduce", "dyn-d2p/table2", "--quick", "--jobs", "1"],
    "learn-graph": ["learn-graph", "--epsilon", "4", "--seed", "0"],
    "up": ["up", "demo", "--sites", "2"],
}
RESUMED = "Interrupted. Finished runs are saved. Run the same command again to resume."
WHEN_IMPORTED = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class CtrlC(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from tacit.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        *[(name, "train") for name in ("typer", "tacit.cli.verify", "tacit.runs")],
        *[("torch", command) for command in COMMANDS],
    ],
)
def test_ctrl_c_during_imports(module, command, tmp_path):
    source = str(Path(__file__).parents[2] / "src")
    ended = subprocess.run(
        [sys.executable, "-c", WHEN_IMPORTED.format(name=module), *COMMANDS[command]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        preexec_fn=accept_ctrl_c,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Interrupted.\n")
    assert not list(tmp_path.iterdir())


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "function", "line"),
    [
        ("train", "tacit.runs.Config.load", "Interrupted."),
        ("compare", "tacit.runs.config.Config.parse", RESUMED),
        ("sweep", "tacit.runs.config.Config.parse", RESUMED),
        ("audit", "tacit.runs.Config.load", "Interrupted."),
        ("reproduce", "tacit.runs.config.Config.parse", RESUMED),
        ("learn-graph", "tacit.graph_learning.synthetic.rbf", "Interrupted."),
        ("up", "tacit.runs.config.Config.parse", "Interrupted."),
    ],
)
def test_ctrl_c_while_the_config_is_read(command, function, line, tacit, monkeypatch, tmp_path):
    monkeypatch.setattr(function, interrupt)
    ended = tacit(*COMMANDS[command])
    assert (ended.code, ended.out, ended.err.splitlines()[-1:]) == (130, "", [line])
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("command", ["train", "compare", "sweep", "up"])
def test_ctrl_c_during_a_download(command, tacit, monkeypatch, tmp_path):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(cache))

    def download(self, url, part, _):
        Path(part).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", download)
    (tmp_path / "mine.toml").write_text('data = "mushrooms"\n[privacy]\nepsilon = 2.0\n')
    args = {
        "train": ["train", "mine.toml"],
        "compare": ["compare", "mine.toml", "sgp", "--set", "data=mushrooms", "--epsilon", "2", "--jobs", "1"],
        "sweep": ["sweep", "mine.toml", "--grid", "lr=0.1,0.2", "--workers", "1"],
        "up": ["up", "demo", "--sites", "2"],
    }[command]
    if command == "up":
        monkeypatch.setattr("tacit.sites.setup.EXAMPLE_CONFIG", {"data": "mushrooms", "privacy": {"epsilon": 2.0}})
    ended = tacit(*args)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.splitlines()[-1] in ("Interrupted.", RESUMED)
    assert "Traceback" not in ended.err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("command", "line"),
    [("compare", RESUMED), ("sweep", RESUMED), ("reproduce", RESUMED), ("audit", "Interrupted.")],
)
def test_ctrl_c_in_the_first_round_of_several_runs(command, line, tacit, monkeypatch):
    monkeypatch.setattr("tacit.tasks.Task.gradient", interrupt)
    ended = tacit(*COMMANDS[command])
    assert (ended.code, ended.out, ended.err.splitlines()[-1]) == (130, "", line)
    assert "Traceback" not in ended.err


def test_ctrl_c_in_the_first_round_of_a_run(tacit, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("tacit.tasks.Task.gradient", interrupt)
        ended = tacit(*COMMANDS["train"])
    assert (ended.code, ended.err) == (130, "")
    lines = ended.out.splitlines()
    assert lines[0] == "Stopped: stopped by hand after 0 of 6 rounds"
    assert lines[-1] == "To resume: tacit train --resume runs/example"
    assert tacit("train", "--resume", "runs/example").code == 0


def test_ctrl_c_in_the_first_round_of_graph_learning(tacit, monkeypatch):
    monkeypatch.setattr("tacit.graph_learning.run.GraphLearningRun._round", interrupt)
    ended = tacit(*COMMANDS["learn-graph"])
    assert ended.code == 130
    assert ended.out.startswith("Stopped: interrupted after 0 of at most")
    assert "Traceback" not in ended.err


def test_ignored_ctrl_c_stays_ignored():
    """A shell ignores Ctrl-C in processes that it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with exit_on_ctrl_c():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
