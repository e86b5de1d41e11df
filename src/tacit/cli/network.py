"""`tacit network`: create the files of a network of sites, and keys for paired noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_line
from tacit.cli.privacy_lines import warn_if_weak

network = typer.Typer(help="Create networks of sites, with one process per organisation.", no_args_is_help=True)
app.add_typer(network, name="network")


@network.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    sites: Annotated[int, typer.Option(min=2, help="Number of sites.")] = 6,
    config: Annotated[
        Path | None, typer.Option(help="A config file of `tacit train`. Default: the embedded example.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting of the config: key=value.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="Host of the sites: give one for all sites, or one per site.")
    ] = None,
    noise_seed: Annotated[
        int | None,
        typer.Option(min=0, help="Derive the noise from this seed, to compare with `tacit train`. Protects nobody."),
    ] = None,
) -> None:
    """Create a network: network.toml for all sites, and one folder per site with its config, certificate and data."""
    from tacit.runs import Config
    from tacit.sites import create_network

    settings = Config.load(config, set_ or [])
    warn_if_weak(settings.privacy.epsilon)
    with err.status("Preparing data, certificates and noise"):
        files = create_network(folder, sites, settings, hosts=host or (), noise_seed=noise_seed)
    print_line(f"Created {files.network} and one folder for each of {sites} sites:")
    for node in files.nodes:
        print_line(f"  {node.parent}")
    print_line(f"Keep {folder}/authority/authority.key secret: it can sign certificates for any site.")
    if not host:
        print_line(f"Run all sites on this machine: tacit up {folder}")
    print_line(f"Run one site: copy {files.network.name} and its folder to the site, side by side, and run there:")
    print_line(f"  tacit node {files.nodes[0].relative_to(folder)}")
    if files.simulation is not None:
        print_line(f"Simulate the same run: tacit train {files.simulation}")


@network.command("key")
def key(file: Annotated[Path, typer.Argument(help="The site's node.toml.")]) -> None:
    """Create a site's private key for a new epoch of paired noise, and print its public key for network.toml."""
    from tacit.sites import SiteConfig, create_pair_key

    path, public = create_pair_key(SiteConfig.load(file))
    print_line(f"Created {path}. Keep it secret. In network.toml, at every site, set for this site:")
    print_line(f'  public_key = "{public}"')
    print_line("Raise epoch when all sites have new keys.")
