"""A ready network for trying out: the agreed file, and each site's folder with its own file, certificate and data."""

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from tacit.errors import TacitError
from tacit.runs.build import from_config, named_graph
from tacit.runs.config import EXAMPLE, Config
from tacit.runs.storage import check_free, make_folder, write
from tacit.sites.certificates import AUTHORITY, CertificateFiles, create_authority, create_site_certificate
from tacit.sites.config import SiteConfig
from tacit.sites.signals import graph_method, is_graph_learning

NETWORK, NODE, SIMULATION = "network.toml", "node.toml", "simulation.toml"
_LOCAL = "127.0.0.1"
_PORT, _WATCH = 7401, 9401
_FREE = range(10_000, 32_000)  # below those that systems give to clients, which come and go
_FILE = "records.npz"
_VERTICES = 20
_SECTIONS = ("graph", "algorithm", "privacy")

Arrays = dict[str, Any]


class NetworkFiles(NamedTuple):
    """The files that were written: the network's, each site's, and the config that `tacit train` takes."""

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
    """Write a network of so many sites to the new folder `folder`, whole or not at all.

    The config's data are dealt to the sites as `tacit train` deals them to nodes; by default it is the embedded
    example. Sites are at `hosts`, one for all or one for each; by default all are on this machine, at ports that are
    free now.
    """
    if sites < 2:
        raise TacitError(f"a network needs at least 2 sites, not {sites}")
    config = _with_nodes(config or Config.parse(EXAMPLE), sites)
    check_free(folder)
    names = [f"site-{i + 1}" for i in range(sites)]
    where, ports = _hosts(hosts, sites), _ports(hosts, sites)
    with _whole(folder) as part:
        network, parts = _agreed(config, part)
        members = [{"name": n, "address": f"{h}:{p}"} for n, h, (p, _) in zip(names, where, ports, strict=True)]
        _toml(part / NETWORK, {**network, "sites": members}, "What the sites agree on: the same file at every site.")
        _certify(part, names, where)
        for name, host, (port, watch), arrays in zip(names, where, ports, parts, strict=True):
            np.savez(part / name / _FILE, **arrays)
            _toml(part / name / NODE, _node(name, host, port, watch, noise_seed), "This site's own.")
            SiteConfig.load(part / name / NODE)
        if not is_graph_learning(config.algorithm):
            _toml(part / SIMULATION, config.as_dict(), "The same run on one machine, for tacit train.")
    nodes = tuple(folder / name / NODE for name in names)
    simulation = folder / SIMULATION
    return NetworkFiles(folder / NETWORK, nodes, simulation if simulation.exists() else None)


def _with_nodes(config: Config, sites: int) -> Config:
    if config.measure:
        raise TacitError("measure asks for bare numbers over all nodes, which no site may tell: leave out measure")
    table = config.as_dict()
    return Config.parse({**table, "graph": {**table["graph"], "nodes": sites}})


def _agreed(config: Config, folder: Path) -> tuple[dict[str, Any], Iterator[Arrays]]:
    """What network.toml says, but for the sites, and each site's data. Files that it names are put into the folder."""
    graph, table = is_graph_learning(config.algorithm), config.as_dict()
    form, parts = _signals(config) if graph else _records(config)
    sections = _SECTIONS if graph else (*_SECTIONS, "model", "batch")
    chosen = {key: _carried(table[key], folder) for key in sections}
    chosen["graph"].pop("nodes")
    general = {key: value for key, value in table.items() if key in ("rounds", "seed", "evaluate_every")}
    return {"name": config.name or "network", **general, "data": form, **chosen}, parts


def _records(config: Config) -> tuple[dict[str, Any], Iterator[Arrays]]:
    """The form and the shards of the very run that a simulation of the config would be."""
    task = from_config(config).task
    data = task.data
    test = {"x_test": data.test_x.numpy(), "y_test": data.test_y.numpy()}
    parts = ({"x": data.x[part].numpy(), "y": data.y[part].numpy(), **test} for part in task.shards)
    return {"inputs": list(data.inputs), "classes": data.classes}, parts


def _signals(config: Config) -> tuple[dict[str, Any], Iterator[Arrays]]:
    """Made-up signals, those of the example of `tacit learn-graph`."""
    from tacit.graph_learning import synthetic

    graph_method(config.algorithm, config.rounds, config.privacy)
    nodes = named_graph(config.graph).nodes
    made = synthetic.rbf(vertices=_VERTICES, clients=nodes, signals=500, seed=config.seed)
    return {"vertices": _VERTICES}, ({"signals": table} for table in made.signals)


def _carried(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A section whose files have been copied to the network's folder, so that they go where it goes."""
    section = dict(section)
    name, colon, attribute = str(section.get("name", "")).rpartition(":")
    if name.endswith(".py"):
        section["name"] = _copied(Path(name), folder) + colon + attribute
    if isinstance(section.get("path"), str):
        section["path"] = _copied(Path(section["path"]), folder)
    return section


def _copied(file: Path, folder: Path) -> str:
    there = folder / file.name
    if there.exists() and there.read_bytes() != file.read_bytes():
        raise TacitError(f"two files of this network are called {file.name}: give one another name")
    shutil.copyfile(file, there)
    return file.name


def _certify(folder: Path, names: Iterable[str], hosts: Iterable[str]) -> None:
    """Each site gets its own certificate and key, and the authority's certificate; the authority keeps its key."""
    authority = folder / AUTHORITY
    trusted = create_authority(authority).certificate
    pairs = {name: create_site_certificate(authority, name, [host]) for name, host in zip(names, hosts, strict=True)}
    for name, pair in pairs.items():
        own = folder / name
        own.mkdir(mode=0o700)
        for file in (pair.certificate, pair.key):
            file.rename(own / file.name)
        shutil.copyfile(trusted, own / trusted.name)


def _node(name: str, host: str, port: int, watch: int, noise_seed: int | None) -> dict[str, Any]:
    own = CertificateFiles.named(Path(), name)
    return {
        "name": name,
        "network": f"../{NETWORK}",
        **({"listen": f"{host}:{port}"} if host == _LOCAL else {}),
        "state": "state",
        "metrics_address": f"{_LOCAL}:{watch}",
        **({} if noise_seed is None else {"noise_seed": noise_seed}),
        "certificates": {"certificate": str(own.certificate), "key": str(own.key), "authority": f"{AUTHORITY}.crt"},
        "data": {"name": "npz", "path": _FILE},
    }


def _hosts(hosts: Sequence[str], sites: int) -> list[str]:
    given = list(hosts) or [_LOCAL]
    if len(given) not in (1, sites):
        raise TacitError(f"there are {len(given)} hosts for {sites} sites: give one for all, or one for each")
    return given * (sites // len(given))


def _ports(hosts: Sequence[str], sites: int) -> list[tuple[int, int]]:
    """A port for the others and one to watch at, for each site: free ones here, usual ones elsewhere."""
    if hosts and set(hosts) != {_LOCAL}:
        return [(_PORT + i, _WATCH + i) for i in range(sites)]
    free: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(_FREE, len(_FREE)):
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind((_LOCAL, port))
                free.append(port)
            if len(free) == 2 * sites:
                return list(zip(free[:sites], free[sites:], strict=True))
    raise TacitError(f"this machine has no {2 * sites} free ports: use fewer sites, or give hosts")


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `folder` if all goes well, and else is gone."""
    part = folder.with_name(folder.name + ".part")
    make_folder(part)
    try:
        yield part
        os.rename(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _toml(path: Path, table: Mapping[str, Any], what: str) -> None:
    write(path, f"# {what}\n{tomli_w.dumps(table)}".encode())
