"""The wheel, installed into new environments and used outside the checkout (`make wheel`).

An environment contains the wheel, and links to exactly those packages that the wheel declares, with what they need. A
package that is not declared makes a test fail. Nothing is downloaded.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "experiments")
QUICK = ("--set", "rounds=4", "--set", "graph.nodes=4")
NO_PAGE = 'warning: Report pages need plotly, which is not installed: pip install "tacit[report]"'

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder with the sdist, and the wheel that is built from the sdist."""
    copy = tmp_path_factory.mktemp("source")  # files of earlier builds must not get into it
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        else:
            shutil.copy(source, copy / name)
    folder = ROOT / os.environ["TACIT_DIST"] if "TACIT_DIST" in os.environ else tmp_path_factory.mktemp("dist")
    for earlier in folder.glob("tacit-*"):
        earlier.unlink()
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(copy)]
    built = subprocess.run(build, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (built,) = dist.glob("tacit-*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (found,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(archive.read(found))


def needed(requirements: list[str], extras: set[str], found: dict[str, Distribution]) -> dict[str, Distribution]:
    """Add the installed packages that the requirements name, and what these packages need, to `found`."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requirements):
        asked = [{"extra": extra} for extra in extras | {""}]
        if requirement.marker is not None and not any(map(requirement.marker.evaluate, asked)):
            continue
        package = distribution(requirement.name)
        assert requirement.specifier.contains(package.version, prereleases=True), requirement
        if requirement.name not in found:
            found[requirement.name] = package
            needed(package.requires or [], set(requirement.extras), found)
    return found


def create_environment(folder: Path, wheel: Path, packages: dict[str, Distribution]) -> Path:
    """Create an environment with the wheel and links to the packages."""
    venv.create(folder, with_pip=False)
    install = ["--python", folder / "bin/python", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", *map(str, install)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for package in packages.values():
        for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site_packages / name).exists():
                (site_packages / name).symlink_to(package.locate_file(name))
    return folder


@pytest.fixture(scope="module", params=["", "report"], ids=["core", "report"])
def environment(request, wheel, metadata, tmp_path_factory):
    """An environment with the core only, and one with the extra `report`."""
    extras = {request.param} - {""}
    packages = needed(metadata.get_all("Requires-Dist"), extras, {})
    assert ("plotly" in packages) == bool(extras)
    return create_environment(tmp_path_factory.mktemp("environment"), wheel, packages)


@pytest.fixture
def has_pages(environment):
    return bool(list(environment.glob("lib/python*/site-packages/plotly")))


@pytest.fixture
def run(environment, tmp_path):
    def command(program, *args, code=0):
        hidden = ("PYTHONPATH", "TACIT_DATA", "PYTHONWARNINGS")
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        ended = subprocess.run(
            [environment / "bin" / program, *args], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert ended.returncode == code, ended.stderr
        return ended

    return command


def test_the_wheel_contains_its_data_and_metadata(wheel, metadata):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tracked = subprocess.run(["git", "ls-files", "src", "experiments"], cwd=ROOT, capture_output=True, text=True)
    files = tracked.stdout.split()
    assert len(files) > 400
    for file in files:
        inside = file.removeprefix("src/")
        assert any(name == inside or name.endswith(f"/data/share/tacit/{inside}") for name in names), file
    assert "tacit/py.typed" in names
    assert metadata["Version"] == tacit.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The Tacit authors"
    assert {"sites", "report", "data", "trackers", "onnx", "dev"} <= set(metadata.get_all("Provides-Extra"))
    assert "# Tacit" in metadata.get_payload()


def test_the_sdist_contains_licence_and_experiments(dist):
    (sdist,) = dist.glob("tacit-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "experiments/dyn-d2p/table2.toml"} <= names


def test_an_index_accepts_the_metadata_and_the_readme(dist):
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.glob("tacit-*"))]
    checked = subprocess.run(check, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert (checked.returncode, checked.stdout.count("PASSED")) == (0, 2), checked.stdout


def test_the_installed_command_trains_verifies_and_predicts(run, tmp_path, environment, has_pages):
    where = run("python", "-c", "import tacit; print(tacit.__file__)").stdout
    assert Path(where.strip()).is_relative_to(environment)
    assert run("tacit", "--version").stdout.split() == ["tacit", tacit.__version__]
    trained = run("tacit", "train", "--json", *QUICK)
    assert json.loads(trained.stdout)["privacy"]["guaranteed"] <= 3.0
    assert (tmp_path / "runs/example/report.html").is_file() == has_pages
    warned = [] if has_pages else [f"{NO_PAGE}, then run: tacit report runs/example"]
    assert [line for line in trained.stderr.splitlines() if "warning" in line] == warned
    assert run("tacit", "verify", "runs/example").stdout.startswith("runs/example: verified\n")
    run("python", "-c", "import numpy as np; np.savez('new.npz', x=np.zeros((3, 1, 8, 8)))")
    predicted = run("tacit", "predict", "runs/example", "new.npz").stdout.splitlines()
    assert len([line for line in predicted if line.isdigit()]) == 3
    assert run("tacit", "report", "runs/example", code=0 if has_pages else 2)


def test_the_installed_command_compares_in_several_processes(run, tmp_path, has_pages):
    compared = run("tacit", "compare", "sgp", "const-d2p", "--epsilon", "3", "--seeds", "1", "--jobs", "2", *QUICK)
    assert (tmp_path / "runs/compare/report.html").is_file() == has_pages
    warned = [] if has_pages else [NO_PAGE]  # of this process, and of none of its workers
    assert [line for line in compared.stderr.splitlines() if "pip install" in line] == warned


def test_the_installed_command_finds_its_files_and_names_missing_extras(run, tmp_path):
    listed = json.loads(run("tacit", "list", "--json").stdout)
    assert len(listed["experiments"]) == len(list((ROOT / "experiments").glob("*/*.toml")))
    schema = "from importlib.resources import files; print(files('tacit.sites').joinpath('wire.proto').read_text())"
    shown = run("python", "-c", schema, code=1)  # importing tacit.sites needs its extra
    assert 'Sites need grpc, which is not installed: pip install "tacit[sites]"' in shown.stderr
    assert 'pip install "tacit[sites]"' in run("tacit", "up", "demo", code=2).stderr
    assert "  sites: missing " in run("tacit", "doctor").stdout


def test_sites_run_from_the_wheel(wheel, metadata, tmp_path):
    packages = needed(metadata.get_all("Requires-Dist"), {"sites"}, {})
    environment = create_environment(tmp_path / "environment", wheel, packages)
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "TACIT_DATA")}
    (tmp_path / "quick.toml").write_text("rounds = 3\n[privacy]\nepsilon = 3.0\n[graph]\nnodes = 2\n")
    for args in (["network", "init", "demo", "--sites", "2", "--config", "quick.toml"], ["up", "demo"]):
        command = [environment / "bin/tacit", *args]
        ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
    assert "all 2 sites finished 3 rounds" in ended.stdout
