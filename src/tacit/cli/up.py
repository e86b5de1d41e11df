"""`tacit up`: a whole network of sites on this machine, with a live view."""

from __future__ import annotations

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

from tacit.cli.app import INTERRUPTED, app, emit, err, say
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.sites.status import SiteStatus
    from tacit.sites.supervisor import Supervisor

_SITES = 6
_LINE = 10.0  # seconds between two lines where there is no terminal
_COLOURS = {"starting": "dim", "waiting": "yellow", "running": "cyan", "finished": "green", "failed": "red"}


@app.command()
def up(
    folder: Annotated[Path, typer.Argument(help="What `tacit network init` has made, or will make.")] = Path("sites"),
    sites: Annotated[int | None, typer.Option(min=2, help=f"How many to make, by default {_SITES}.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run every site of a network on this machine, a process each, and watch them."""
    network = _network(folder, sites)
    with _view(as_json) as show:
        network.go(show)
    result = network.result()
    if as_json:
        emit(result)
    else:
        _report(network, result)
    if not network.finished:
        raise typer.Exit(INTERRUPTED if network.interrupted else 1)


def _network(folder: Path, sites: int | None) -> Supervisor:
    from tacit.sites.setup import create_network
    from tacit.sites.supervisor import Supervisor

    if not (folder / "network.toml").exists():
        with err.status("Preparing: data, certificates, and the noise for the privacy asked for"):
            create_network(folder, sites or _SITES)
    network = Supervisor(folder)
    if sites not in (None, len(network.sites)):
        raise TacitError(
            f"{folder} has {len(network.sites)} sites, not {sites}: leave out --sites, or name a new folder"
        )
    return network


@contextmanager
def _view(quiet: bool) -> Iterator[Callable[[Supervisor], None]]:
    """What is shown of a network on standard error, twice a second."""
    if quiet:
        yield lambda network: None
    elif err.is_terminal:
        with Live(console=err, auto_refresh=False) as live:
            yield lambda network: live.update(_table(network), refresh=True)
    else:
        yield _Lines().show


class _Lines:
    """A line now and then, and those of the logs that are of note."""

    def __init__(self) -> None:
        self._next = 0.0

    def show(self, network: Supervisor) -> None:
        for line in network.news:
            err.print(line, highlight=False, markup=False, soft_wrap=True, emoji=False)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE
            err.print(_line([site.status for site in network.sites]), highlight=False, soft_wrap=True)


def _line(all_: list[SiteStatus]) -> str:
    """All sites in a line: the numbers are those of the site that is furthest behind, or has spent most."""
    states = Counter(status.state for status in all_)
    worst = max(all_, key=lambda status: float("inf") if status.epsilon is None else status.epsilon)
    told = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"round {min(status.round for status in all_)} of {worst.rounds}  {told}  guaranteed ε {_epsilon(worst)}"


def _table(network: Supervisor) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("site", "state", "", "round", "guaranteed ε", "accuracy", "peers", "sent"):
        table.add_column(name, justify="right" if name in ("round", "guaranteed ε", "accuracy", "sent") else "left")
    for site in network.sites:
        now = site.status
        state = now.state if not now.waiting_for else f"waiting for {', '.join(now.waiting_for)}"
        table.add_row(
            Text(site.name),
            Text(state, style=_COLOURS[now.state], overflow="ellipsis", no_wrap=True),
            ProgressBar(total=now.rounds, completed=now.round, width=20),
            f"{now.round}/{now.rounds}",
            _epsilon(now),
            "–" if now.accuracy is None else f"{now.accuracy:.1%}",
            "".join("●" if peer.up else "○" for peer in now.peers.values()),
            f"{now.bytes_sent / 1e6:.1f} MB",
        )
    return Group(table, *(Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in network.notes))


def _epsilon(status: SiteStatus) -> str:
    from tacit.privacy.statement import rounded_up

    if status.epsilon is None:
        return "none" if status.digest else "–"  # one that has not said anything yet
    return rounded_up(status.epsilon, 3)


def _report(network: Supervisor, result: dict[str, Any]) -> None:
    count, first = len(network.sites), network.sites[0]
    least = min(site.status.round for site in network.sites)
    if network.finished:
        accuracy = "" if result["accuracy"] is None else f": mean accuracy {result['accuracy']:.1%}"
        say(f"All {count} sites of {result['network']} have finished after {least} rounds, and stopped{accuracy}.")
        if network.privacy is not None:
            say(f"The site that spent most: {network.privacy.sentence()}")
        say(f"Everything is in {network.folder}; each site has a page, such as {first.site.state}/report.html.")
    elif network.interrupted:
        rounds = network.network_config.rounds
        say(f"All {count} sites stopped at round {least} of {rounds}. Resume with: tacit up {network.folder}")
    else:
        err.print("error:", result["error"], style="red", highlight=False, soft_wrap=True, markup=False, emoji=False)
        say(f"All {count} sites have stopped; each has a log, such as {network.folder / first.name}/log.jsonl.")
