"""Creates the files of a network: network.toml, and one folder per site with its config, certificate and data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from tacit.errors import TacitError
from tacit.runs import EXAMPLE_CONFIG, KEY_GRAPHS, Config, FeatureKeys, build_graph, from_config, storage
from tacit.sites.build import uses_record_counts
from tacit.sites.certificates import CertificateFiles, create_authority, create_site_certificate
from tacit.sites.hosts import LOCALHOST, assign_hosts, assign_ports
from tacit.sites.names import AUTHORITY
from tacit.sites.pair_keys import pair_key_name, write_pair_key
from tacit.sites.signals import build_graph_method, is_graph_learning
from tacit.sites.site_config import SiteConfig

NETWORK, NODE, SIMULATION = "network.toml", "node.toml", "simulation.toml"
_DATA_FILE = "records.npz"
_EXAMPLE_VERTICES, _EXAMPLE_SIGNALS = 20, 500
_SHARED_SECTIONS = ("graph", "algorithm", "privacy")

Arrays = dict[str, Any]


class NetworkFiles(NamedTuple):
    """Paths of the files of a network.

    Attributes:
        network: network.toml.
        nodes: node.toml of every site.
        simulation: A config with which `tacit train` simulates the same run; None for graph learning.
    """

    network: Path
    nodes: tuple[Path, ...]
    simulation: Path | None


def create_network(
    folder: Path,
    sites: int,
    config: Config | None = None,
    *,
    hosts: Sequence[str] = (),
    noise_seed: int | None = None,
) -> NetworkFiles:
    """Create a network in the new folder `folder`, completely or not at all.

    Args:
        folder: The folder; it must not exist or be empty.
        sites: Number of sites, at least 2.
        config: Config of `tacit train`; by default the embedded example. Its data are distributed to the sites as
            `tacit train` distributes them to nodes.
        hosts: One host for all sites or one per site. By default all sites use free ports of this machine.
        noise_seed: Derive the noise from this public seed, as a simulation does. It protects nobody.

    Raises:
        TacitError: If the folder is in use, or the config cannot be run by sites.
    """
    if sites < 2:
        raise TacitError(f"A network needs at least 2 sites, got {sites}")
    config = _with_nodes(config or Config.parse(EXAMPLE_CONFIG), sites)
    storage.check_new_folder(folder)
    names = [f"site-{i + 1}" for i in range(sites)]
    site_hosts, ports = assign_hosts(hosts, sites), assign_ports(hosts, sites)
    with _created_completely(folder) as part:
        network, site_data, records = _network_table(config, part)
        addresses = [f"{host}:{port}" for host, (port, _) in zip(site_hosts, ports, strict=True)]
        members: list[dict[str, Any]] = [
            {"name": name, "address": address} for name, address in zip(names, addresses, strict=True)
        ]
        for member, count in zip(members, records, strict=False):
            member["records"] = count
        _create_certificates(part, names, site_hosts)
        paired = config.privacy.noise == "paired"
        for member in members if paired else ():
            member["public_key"] = write_pair_key(part / member["name"] / pair_key_name(member["name"]))
        _write_toml(part / NETWORK, {**network, "sites": members}, "The same file at every site of the network.")
        for name, host, (port, metrics_port), arrays in zip(names, site_hosts, ports, site_data, strict=True):
            np.savez(part / name / _DATA_FILE, **arrays)
            table = _node_table(name, host, port, metrics_port, noise_seed)
            if paired:
                table["certificates"]["pair_key"] = pair_key_name(name)
            _write_toml(part / name / NODE, table, "Settings of this site only.")
            SiteConfig.load(part / name / NODE)
        if not is_graph_learning(config.algorithm):
            _write_toml(part / SIMULATION, config.as_dict(), "The same run as a simulation: tacit train FILE")
    simulation = folder / SIMULATION
    nodes = tuple(folder / name / NODE for name in names)
    return NetworkFiles(folder / NETWORK, nodes, simulation if simulation.exists() else None)


def _with_nodes(config: Config, sites: int) -> Config:
    if config.measure:
        raise TacitError("measure needs values of all nodes without noise, which sites do not send: remove measure")
    table = config.as_dict()
    return Config.parse({**table, "noise": "simulated", "graph": {**table["graph"], "nodes": sites}})


def _network_table(config: Config, folder: Path) -> tuple[dict[str, Any], Iterator[Arrays], list[int]]:
    """Return network.toml without the sites, the data of every site, and its number of records if it is used.

    Copy files that it names to `folder`.
    """
    graph, table = is_graph_learning(config.algorithm), config.as_dict()
    data_format, site_data, records = _signals(config) if graph else _records(config)
    sections = _SHARED_SECTIONS if graph else (*_SHARED_SECTIONS, "model", "batch")
    chosen = {key: _with_copied_files(table[key], folder) for key in sections}
    chosen["graph"].pop("nodes")
    if "features" in data_format:
        data_format["features"] = [_with_copied_code(name, folder) for name in data_format["features"]]
        data_format["whiten"] = _with_copied_code(data_format.get("whiten", "none"), folder)
    general = {key: value for key, value in table.items() if key in ("rounds", "seed", "evaluate_every")}
    keys = config.privacy.keys
    if keys is not None and keys not in KEY_GRAPHS:
        chosen["privacy"]["keys"] = _copy(Path(keys), folder)
    return {"name": config.name or "network", **general, "data": data_format, **chosen}, site_data, records


def _records(config: Config) -> tuple[dict[str, Any], Iterator[Arrays], list[int]]:
    """Return the data format, the shards that a simulation of the config would use, and their sizes if they are used.

    Where the sizes have no effect, sites may replace their data by others without agreeing on them.
    """
    run = from_config(config)
    task = run.task
    data = task.data
    x, test_x = data.raw  # every site applies the features itself
    test = {"x_test": test_x.numpy(), "y_test": data.test_y.numpy()}
    parts = ({"x": x[part].numpy(), "y": data.y[part].numpy(), **test} for part in task.shards)
    sizes = task.sizes.tolist() if uses_record_counts(run.algorithm) else []
    keys = {key: value for key, value in config.data.parameters.items() if key in FeatureKeys.model_fields}
    if data.pixels is not None and data.features is not None:
        keys["pixels"] = {key: list(values) for key, values in data.pixels._asdict().items()}
    return {"inputs": list(x.shape[1:]), "classes": data.classes, **keys}, parts, sizes


def _signals(config: Config) -> tuple[dict[str, Any], Iterator[Arrays], list[int]]:
    """Return the data format, and the synthetic signals of the example of `tacit learn-graph`."""
    from tacit.graph_learning import synthetic

    build_graph_method(config.algorithm, config.rounds, config.privacy)
    nodes = build_graph(config.graph).nodes
    made = synthetic.rbf(vertices=_EXAMPLE_VERTICES, clients=nodes, signals=_EXAMPLE_SIGNALS, seed=config.seed)
    return {"vertices": _EXAMPLE_VERTICES}, ({"signals": table} for table in made.signals), []


def _with_copied_files(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Copy the files that a section names to `folder`, and return the section with their new names."""
    section = dict(section)
    if "name" in section:
        section["name"] = _with_copied_code(str(section["name"]), folder)
    if isinstance(section.get("path"), str):
        section["path"] = _copy(Path(section["path"]), folder)
    return section


def _with_copied_code(name: str, folder: Path) -> str:
    """Copy the file of a user's own part to `folder`, and return the new name. Other names stay as they are."""
    file, colon, attribute = name.rpartition(":")
    return _copy(Path(file), folder) + colon + attribute if file.endswith(".py") else name


def _copy(file: Path, folder: Path) -> str:
    copy = folder / file.name
    if copy.exists() and copy.read_bytes() != file.read_bytes():
        raise TacitError(f"Two different files of this network have the name {file.name}: rename one")
    shutil.copyfile(file, copy)
    return file.name


def _create_certificates(folder: Path, names: Iterable[str], hosts: Iterable[str]) -> None:
    """Give every site its certificate and key, and the authority's certificate. The authority's key stays apart."""
    authority = folder / AUTHORITY
    trusted = create_authority(authority).certificate
    issued = {name: create_site_certificate(authority, name, [host]) for name, host in zip(names, hosts, strict=True)}
    for name, files in issued.items():
        site_folder = folder / name
        site_folder.mkdir(mode=0o700)
        for file in (files.certificate, files.key):
            file.rename(site_folder / file.name)
        shutil.copyfile(trusted, site_folder / trusted.name)


def _node_table(name: str, host: str, port: int, metrics_port: int, noise_seed: int | None) -> dict[str, Any]:
    files = CertificateFiles.in_folder(Path(), name)
    return {
        "name": name,
        "network": f"../{NETWORK}",
        **({"listen": f"{host}:{port}"} if host == LOCALHOST else {}),
        "state": "state",
        "metrics_address": f"{LOCALHOST}:{metrics_port}",
        **({} if noise_seed is None else {"noise_seed": noise_seed}),
        "certificates": {"certificate": str(files.certificate), "key": str(files.key), "authority": f"{AUTHORITY}.crt"},
        "data": {"name": "npz", "path": _DATA_FILE},
    }


@contextmanager
def _created_completely(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` at the end, or is removed after an error."""
    part = folder.with_name(folder.name + ".part")
    storage.create_folder(part)
    try:
        yield part
        os.rename(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _write_toml(path: Path, table: Mapping[str, Any], comment: str) -> None:
    storage.write(path, f"# {comment}\n{tomli_w.dumps(table)}".encode())
