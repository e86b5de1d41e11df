"""`tacit up`: run all sites of a network on this machine, with a live view."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tacit.cli.app import app
from tacit.cli.interrupt import INTERRUPTED
from tacit.cli.output import err, print_json, print_line
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.sites import SiteStatus, Supervisor

_DEFAULT_SITES = 6
_LINE_INTERVAL = 10.0  # seconds between two progress lines if stderr is not a terminal
_COLOURS = {"starting": "dim", "waiting": "yellow", "running": "cyan", "finished": "green", "failed": "red"}
_RIGHT_ALIGNED = ("round", "guaranteed ε", "accuracy", "sent")


@app.command()
def up(
    folder: Annotated[Path, typer.Argument(help="Folder of a network. If it does not exist, it is created.")] = Path(
        "sites"
    ),
    sites: Annotated[
        int | None, typer.Option(min=2, help=f"Number of sites of a new folder (default {_DEFAULT_SITES}).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run all sites of a network on this machine, one process per site, with a live view. Resumes a stopped run."""
    supervisor = _supervisor(folder, sites)
    with _view(as_json) as show:
        supervisor.go(show)
    result = supervisor.result()
    if as_json:
        print_json(result)
    else:
        _report(supervisor, result)
    if not supervisor.finished:
        raise typer.Exit(INTERRUPTED if supervisor.interrupted else 1)


def _supervisor(folder: Path, sites: int | None) -> Supervisor:
    from tacit.sites import Supervisor, create_network

    if not (folder / "network.toml").exists():
        with err.status("Preparing data, certificates and noise"):
            create_network(folder, sites or _DEFAULT_SITES)
    supervisor = Supervisor(folder)
    if sites not in (None, len(supervisor.sites)):
        raise TacitError(f"{folder} has {len(supervisor.sites)} sites, not {sites}: omit --sites or use a new folder")
    return supervisor


@contextmanager
def _view(quiet: bool) -> Iterator[Callable[[Supervisor], None]]:
    """Yield the function that shows the current state on stderr."""
    if quiet:
        yield lambda supervisor: None
    elif err.is_terminal:
        with Live(console=err, auto_refresh=False) as live:
            yield lambda supervisor: live.update(_table(supervisor), refresh=True)
    else:
        yield _LineView().show


class _LineView:
    """Prints warnings at once, and a progress line every few seconds."""

    def __init__(self) -> None:
        self._next_line = 0.0

    def show(self, supervisor: Supervisor) -> None:
        for line in supervisor.warnings:
            err.print(line, highlight=False, markup=False, soft_wrap=True, emoji=False)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_INTERVAL
            err.print(_progress_line([site.status for site in supervisor.sites]), highlight=False, soft_wrap=True)


def _progress_line(statuses: list[SiteStatus]) -> str:
    """Return one line for all sites: the lowest round and the largest ε."""
    states = Counter(status.state for status in statuses)
    worst = max(statuses, key=lambda status: math.inf if status.epsilon is None else status.epsilon)
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    first = min(status.round for status in statuses)
    return f"round {first} of {worst.rounds}  {counts}  guaranteed ε {_epsilon(worst)}"


def _table(supervisor: Supervisor) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("site", "state", "", "round", "guaranteed ε", "accuracy", "peers", "sent"):
        table.add_column(name, justify="right" if name in _RIGHT_ALIGNED else "left")
    for site in supervisor.sites:
        now = site.status
        state = now.state if not now.waiting_for else f"waiting for {', '.join(now.waiting_for)}"
        table.add_row(
            Text(site.name),
            Text(state, style=_COLOURS[now.state], overflow="ellipsis", no_wrap=True),
            ProgressBar(total=now.rounds, completed=now.round, width=20),
            f"{now.round}/{now.rounds}",
            _epsilon(now),
            "–" if now.accuracy is None else _accuracy(now.accuracy),
            "".join("●" if peer.up else "○" for peer in now.peers.values()),
            f"{now.bytes_sent / 1e6:.1f} MB",
        )
    warnings = (Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in supervisor.recent_warnings)
    return Group(table, *warnings)


def _epsilon(status: SiteStatus) -> str:
    from tacit.privacy import rounded_up

    if status.epsilon is None:
        return "none" if status.digest else "–"  # without a digest nothing has been received from the site yet
    return rounded_up(status.epsilon, 3)


def _accuracy(share: float) -> str:
    from tacit.runs.metrics import metric

    return metric("accuracy").text(share)


def _report(supervisor: Supervisor, result: dict[str, Any]) -> None:
    from tacit.cli.privacy_lines import simulation_line

    count, first = len(supervisor.sites), supervisor.sites[0]
    rounds_done, rounds = min(site.status.round for site in supervisor.sites), supervisor.network_config.rounds
    if supervisor.finished:
        accuracy = "" if result["accuracy"] is None else f", mean accuracy {_accuracy(result['accuracy'])}"
        print_line(f"{result['network']}: all {count} sites finished {rounds_done} rounds{accuracy}")
        if supervisor.privacy is not None:
            print_line(f"Site with the largest ε: {supervisor.privacy.line}")
        seeds = [site.site.noise_seed for site in supervisor.sites if site.site.noise_seed is not None]
        if seeds:
            print_line(simulation_line(seeds[0]))
        report = first.site.state / "report.html"
        reports = f" Reports: one per site, such as {report}" if report.exists() else ""
        print_line(f"Results: {supervisor.folder}.{reports}")
    elif supervisor.interrupted:
        print_line(f"All {count} sites stopped at round {rounds_done} of {rounds}.")
        print_line(f"Resume with: tacit up {supervisor.folder}")
    else:
        err.print("error:", result["error"], style="red", highlight=False, soft_wrap=True, markup=False, emoji=False)
        print_line(f"All {count} sites stopped. Logs: one per site, such as {supervisor.folder / first.name}/log.jsonl")
