"""`tacit network init`: the files of a network of sites, ready to be tried out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app, err, say

network = typer.Typer(help="Networks of sites, one organisation a process.", no_args_is_help=True)
app.add_typer(network, name="network")


@network.callback()
def _group() -> None:
    """Keeps `init` a command of its own while it is the only one."""


@network.command("init")
def create_network(
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    sites: Annotated[int, typer.Option(min=2, help="How many sites.")] = 6,
    config: Annotated[Path | None, typer.Option(help="A TOML file of `tacit train`; else the example.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the config.")] = None,
    host: Annotated[list[str] | None, typer.Option(help="Where the sites are: one for all, or one each.")] = None,
    noise_seed: Annotated[
        int | None, typer.Option(min=0, help="Noise from this seed, to compare with `tacit train`: not private.")
    ] = None,
) -> None:
    """Write the files of a network: what all agree on, and a folder a site with its certificate and its data."""
    from tacit.runs import Config
    from tacit.sites.setup import create_network as make

    with err.status("Preparing: data, certificates, and the noise for the privacy asked for"):
        made = make(folder, sites, Config.load(config, set_ or []), hosts=host or (), noise_seed=noise_seed)
    say(f"{made.network} says what the {sites} sites agree on; each has a folder with its own file, key and data:")
    for node in made.nodes:
        say(f"  {node}")
    say(f"{folder}/authority has signed their certificates, for trying out; its key goes nowhere.")
    if not host:
        say(f"Run all of it on this machine: tacit up {folder}")
    say(
        f"{'C' if host else 'Or c'}opy {made.network.name} and its folder to each site, side by side, and run there: "
        f"tacit node {made.nodes[0].relative_to(folder)}"
    )
    if made.simulation is not None:
        say(f"The same run as a simulation: tacit train {made.simulation}")
