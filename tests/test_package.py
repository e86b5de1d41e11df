"""The metadata of the package, and what works without the extras."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ImportError(name)

sys.meta_path.insert(0, Blocker())
"""
HIDDEN = (
    *("grpc", "google.protobuf", "prometheus_client", "pooch", "onnx", "mlflow", "wandb", "tensorboard"),
    *("plotly", "jinja2", "markupsafe", "pyarrow", "matplotlib", "dp_accounting"),
)
NO_PAGE = 'Report pages need plotly, which is not installed: pip install "tacit[report]"'
COMMAND = "\nfrom tacit.cli import main\nmain()"


def without_extras(code, folder, *args):
    """Run Python code in a process in which no package of an extra can be imported."""
    (folder / "cache").mkdir(exist_ok=True)
    source = ROOT / "src"
    env = {**os.environ, "PYTHONPATH": str(source), "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    env.pop("TACIT_DATA", None)
    program = BLOCK.format(names=set(HIDDEN)) + code
    return subprocess.run(
        [sys.executable, "-c", program, *args], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )


def test_version_is_the_same_everywhere():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tacit.version.__version__"}
    assert tacit.__version__ == tacit.version.__version__
    assert re.search(r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == tacit.__version__
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == tacit.__version__


def test_extras_have_the_expected_names_and_dev_has_them_all():
    assert {"sites", "report", "data", "onnx", "trackers", "parquet", "plots", "dev"} <= set(EXTRAS)
    (own,) = [each for each in EXTRAS["dev"] if each.startswith("tacit[")]
    assert set(own[len("tacit[") : -1].split(",")) == set(EXTRAS) - {"dev", "bench"}


def test_every_extra_that_an_error_names_exists():
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r'pip install \\?"tacit\[([\w-]+)\]', text))
        named |= set(re.findall(r'require_extra\("([\w-]+)"', text))
    assert {"sites", "report", "data", "onnx", "parquet", "trackers"} <= named <= set(EXTRAS)


def test_training_works_without_extras(tmp_path):
    code = """
import tacit
run = tacit.train(nodes=4, rounds=2, epsilon=2.0, delta=1e-3, out="run")
tacit.verify("run").require()
try:
    import tacit.sites
except ImportError as error:
    print(type(error).__name__, run.privacy.guaranteed <= 2.0)
"""
    args = ("train", "--set", "rounds=3", "--set", "graph.nodes=4")
    ended = without_extras(code + COMMAND, tmp_path, *args)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "MissingExtra True"
    assert any(line.startswith("Guaranteed (simulated) ε = ") for line in lines)
    assert "Results: runs/example" in lines
    assert not list(tmp_path.rglob("report.html"))
    assert all((tmp_path / folder / "threats.json").is_file() for folder in ("run", "runs/example"))
    warned = [line for line in ended.stderr.splitlines() if "tacit[report]" in line]
    assert warned[-1] == f"warning: {NO_PAGE}, then run: tacit report runs/example"
    assert len(warned) == 2  # one of tacit.train, one of the command


@pytest.mark.parametrize(
    ("args", "result"),
    [
        ("compare sgp const-d2p --epsilon 3 --seeds 1 --jobs 1 --set rounds=2", "runs/compare"),
        ("sweep --grid lr=0.1,0.3 --workers 1 --set rounds=2 --set graph.nodes=4", "runs/sweep"),
        ("learn-graph --epsilon 4 --seed 0 --rounds 2 --beta 1 --rho 1 --lam 1", "graphs/example"),
    ],
    ids=["compare", "sweep", "learn-graph"],
)
def test_commands_without_the_report_extra_write_all_but_the_page(args, result, tmp_path):
    ended = without_extras(COMMAND, tmp_path, *args.split())
    assert ended.returncode == 0, ended.stderr
    assert [line for line in ended.stderr.splitlines() if "tacit[report]" in line] == [f"warning: {NO_PAGE}"]
    assert any(line.startswith(f"Results: {result}") for line in ended.stdout.splitlines())
    assert "Report" not in ended.stdout
    assert list((tmp_path / result).rglob("*.json"))
    assert not list(tmp_path.rglob("*.html"))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("up demo", 'Sites need grpc, which is not installed: pip install "tacit[sites]"'),
        ("report run", NO_PAGE),
        ("train --set data=mushrooms", 'Downloads need pooch, which is not installed: pip install "tacit[data]"'),
    ],
    ids=["sites", "report", "data"],
)
def test_the_error_names_the_extra(args, text, tmp_path):
    ended = without_extras(COMMAND, tmp_path, *args.split())
    assert ended.returncode == 2
    assert text in ended.stderr
    assert "Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
