"""`tacit doctor`: versions, data sets, extras and folders on this machine."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from typing import Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line
from tacit.errors import TacitError
from tacit.version import __version__

_LIBRARIES = ("torch", "numpy", "scipy", "pandas", "scikit-learn")
_NOT_SHOWN = ("dev", "bench")  # extras for people who change Tacit


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show versions, the device, data sets that are found, extras that are installed, and the records ledger."""
    facts = {
        "tacit": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "device": _device(),
        "data": _data(),
        "extras": _extras(),
        "records_ledger": _records_ledger(),
    }
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def _device() -> dict[str, Any]:
    import torch

    from tacit.device import choose_device

    return {
        "default": "cpu",
        "auto": str(choose_device("auto")),
        "threads": torch.get_num_threads(),
        "cuda_available": torch.cuda.is_available(),
    }


def _data() -> dict[str, Any]:
    """The folders of data sets, and whether all files of each data set are there. Digests are not checked."""
    from tacit.graph_learning import data as signals
    from tacit.tasks.data import folders, published_files

    files = {**published_files(), "coil20": (signals.COIL,), "abide": (signals.ABIDE,)}
    try:
        searched = [str(folder) for folder in folders()]
        found = {name: all(file.is_present() for file in each) for name, each in files.items()}
    except TacitError as error:  # TACIT_DATA is not a folder
        return {"folders": [], "found": {}, "error": str(error)}
    return {"folders": searched, "found": found, "error": None}


def _extras() -> dict[str, list[str]]:
    """The packages of each extra that are not installed."""
    missing: dict[str, list[str]] = {}
    try:
        requirements = requires("tacit") or []
    except PackageNotFoundError:  # imported from a folder, without an installation
        return missing
    for requirement in requirements:
        extra = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", requirement)
        package = re.match(r"[\w.-]+", requirement)
        if extra is None or package is None or extra[1] in _NOT_SHOWN:
            continue
        missing.setdefault(extra[1], [])
        try:
            distribution(package[0])
        except PackageNotFoundError:
            missing[extra[1]].append(package[0])
    return missing


def _records_ledger() -> dict[str, Any]:
    from tacit.privacy import RecordsLedger

    path = RecordsLedger().path
    return {"path": str(path), "exists": path.exists()}


def _print(facts: dict[str, Any]) -> None:
    print_line(f"Tacit {facts['tacit']}, Python {facts['python']}, {facts['platform']}")
    print_line(", ".join(f"{name} {number}" for name, number in facts["libraries"].items()))
    device = facts["device"]
    print_line(f'Device: {device["default"]}, threads: {device["threads"]}. device = "auto" is {device["auto"]} here')
    data = facts["data"]
    print_line(f"Data folders: {', '.join(data['folders'])}" if data["error"] is None else f"Data: {data['error']}")
    for name, found in data["found"].items():
        print_line(f"  {name}: {'found' if found else 'not found'}")
    print_line("Extras:")
    for name, missing in sorted(facts["extras"].items()):
        advice = f'missing {", ".join(missing)}: pip install "tacit[{name}]"'
        print_line(f"  {name}: {advice if missing else 'installed'}")
    ledger = facts["records_ledger"]
    print_line(f"Records ledger: {ledger['path']}{'' if ledger['exists'] else ' (not yet created)'}")
