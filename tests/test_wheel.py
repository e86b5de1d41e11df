"""The wheel, installed into an environment of its own and used outside the checkout (`make wheel`)."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "experiments")

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of a clean copy of the sources: files of earlier builds must not get into it."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        else:
            shutil.copy(source, copy / name)
    dist = ROOT / os.environ["TACIT_DIST"] if "TACIT_DIST" in os.environ else tmp_path_factory.mktemp("dist")
    for earlier in dist.glob("tacit-*.whl"):
        earlier.unlink()
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(dist), str(copy)]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A new environment with the wheel. Its dependencies are those of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    install = ["--python", folder / "bin/python", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", *map(str, install)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture
def run(environment, tmp_path):
    def command(program, *args):
        hidden = ("PYTHONPATH", "TACIT_DATA", "PYTHONWARNINGS")
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        ended = subprocess.run(
            [environment / "bin" / program, *args], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return command


def test_the_wheel_contains_its_data_and_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (found,) = [name for name in names if name.endswith("/METADATA")]
        metadata = message_from_bytes(archive.read(found))
    tracked = subprocess.run(["git", "ls-files", "src", "experiments"], cwd=ROOT, capture_output=True, text=True)
    files = tracked.stdout.split()
    assert len(files) > 400
    for file in files:
        inside = file.removeprefix("src/")
        assert any(name == inside or name.endswith(f"/data/share/tacit/{inside}") for name in names), file
    assert metadata["Version"] == tacit.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The Tacit authors"
    assert {"sites", "data", "onnx", "trackers", "dev"} <= set(metadata.get_all("Provides-Extra"))
    assert "# Tacit" in metadata.get_payload()


def test_the_installed_command_trains_and_writes_a_page(run, tmp_path, environment):
    where = run("python", "-c", "import tacit; print(tacit.__file__)")
    assert Path(where.strip()).is_relative_to(environment)
    assert run("tacit", "--version").split() == ["tacit", tacit.__version__]
    result = json.loads(run("tacit", "train", "--json", "--set", "rounds=4", "--set", "graph.nodes=4"))
    assert result["privacy"]["guaranteed"] <= 3.0
    assert "<html" in (tmp_path / "runs/example/report.html").read_text()


def test_the_installed_command_finds_experiments_and_sites(run, environment):
    listed = json.loads(run("tacit", "list", "--json"))
    assert "dyn-d2p/table2" in listed["experiments"]
    assert len(listed["experiments"]) == len(list((ROOT / "experiments").rglob("*.toml")))
    protocol = "from importlib.resources import files; print(files('tacit.sites').joinpath('wire.proto').read_text())"
    assert run("python", "-c", protocol).strip() == (ROOT / "src/tacit/sites/wire.proto").read_text().strip()
    assert run("python", "-c", "from tacit.sites import Node; print(Node.__name__)").strip() == "Node"
