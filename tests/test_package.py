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
HIDDEN = ("grpc", "google.protobuf", "prometheus_client", "pooch", "onnx", "mlflow", "wandb", "tensorboard")
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
    assert re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == tacit.__version__
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == tacit.__version__


def test_extras_have_the_expected_names_and_dev_has_them_all():
    assert {"sites", "data", "onnx", "trackers", "parquet", "plots", "dev"} <= set(EXTRAS)
    (own,) = [each for each in EXTRAS["dev"] if each.startswith("tacit[")]
    assert set(own[len("tacit[") : -1].split(",")) == set(EXTRAS) - {"dev", "bench"}


def test_every_extra_that_an_error_names_exists():
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r'pip install \\?"tacit\[([\w-]+)\]', text))
        named |= set(re.findall(r'require_extra\("([\w-]+)"', text))
    assert {"sites", "data", "onnx", "parquet", "trackers"} <= named <= set(EXTRAS)


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
    assert all((tmp_path / folder / "report.html").is_file() for folder in ("run", "runs/example"))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("up demo", 'Sites need grpc, which is not installed: pip install "tacit[sites]"'),
        ("train --set data=mushrooms", 'Downloads need pooch, which is not installed: pip install "tacit[data]"'),
    ],
    ids=["sites", "data"],
)
def test_the_error_names_the_extra(args, text, tmp_path):
    ended = without_extras(COMMAND, tmp_path, *args.split())
    assert ended.returncode == 2
    assert text in ended.stderr
    assert "Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
