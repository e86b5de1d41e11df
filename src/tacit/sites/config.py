"""The two files of a site: what all sites of a network agreed on, and what is its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tacit.errors import TacitError, unknown
from tacit.runs.config import Batch, Choice, Config, PrivacyTarget, Section, checked, read_toml
from tacit.sites.description import SiteName, first_duplicate
from tacit.sites.identity import SiteIdentity
from tacit.sites.signals import is_graph_learning
from tacit.tasks.data.checks import Label

_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")
_ANYWHERE = "[::]"


def _address(value: str) -> str:
    found = _ADDRESS.fullmatch(value)
    if not found or not 0 < int(found["port"]) < 2**16:
        raise ValueError('an address is a host and a port, such as "hospital.example:7401"')
    return value


Address = Annotated[str, AfterValidator(_address)]


class SiteAddress(Section):
    """A site as the others know it."""

    name: SiteName
    address: Address


class DataFormat(Section):
    """What every site's data look like: records of a shape with labels in this order, or signals on vertices.

    `classes` = C alone stands for the labels 0 … C − 1.
    """

    inputs: tuple[Annotated[int, Field(ge=1)], ...] | None = Field(default=None, min_length=1)
    labels: tuple[Label, ...] | None = Field(default=None, min_length=2)
    classes: int | None = Field(default=None, ge=2)
    vertices: int | None = Field(default=None, ge=2)

    @property
    def order(self) -> tuple[Label, ...]:
        """Labels by the numbers of their classes."""
        return self.labels or tuple(range(self.classes or 0))


class NetworkConfig(Section):
    """network.toml, the same at every site. The first of the sites is node 0, and so on.

    >>> table = {"name": "hospitals", "rounds": 9, "data": {"inputs": [64], "classes": 10}, "graph": "ring"}
    >>> sites = [{"name": f"site-{i}", "address": f"127.0.0.1:{7400 + i}"} for i in (1, 2, 3)]
    >>> agreed = NetworkConfig.parse({**table, "algorithm": "sgp", "model": "logistic", "sites": sites})
    >>> agreed.names, agreed.config().graph.parameters
    (('site-1', 'site-2', 'site-3'), {'nodes': 3})
    >>> NetworkConfig.parse({**table, "algorithm": "sgp", "sites": [{"name": "site-1", "adress": "here:1"}]})
    Traceback (most recent call last):
    tacit.errors.TacitError: unknown key of [sites] in the network "adress"; did you mean "address"?
    """

    name: str = Field(pattern=r"^[\w\-. ]*\w$")
    rounds: int = Field(ge=1)
    seed: int = Field(default=0, ge=0, lt=2**63)
    evaluate_every: int | None = Field(default=None, ge=1)
    data: DataFormat
    graph: Choice
    algorithm: Choice
    model: Choice | None = None
    batch: Batch | None = None
    privacy: PrivacyTarget = PrivacyTarget()
    sites: tuple[SiteAddress, ...] = Field(min_length=1)

    @classmethod
    def parse(cls, table: Mapping[str, Any], where: str = "the network") -> NetworkConfig:
        agreed = checked(cls, table, where)
        if wrong := agreed._wrong() or agreed._misformed():
            raise TacitError(f"{where}: {wrong}")
        return agreed

    @classmethod
    def load(cls, path: Path) -> NetworkConfig:
        """The file at `path`; files that it names are beside it."""
        agreed = cls.parse(read_toml(path), str(path))
        parts = {key: getattr(agreed, key) for key in ("graph", "algorithm", "model")}
        placed = {key: _placed(choice, path.parent) for key, choice in parts.items() if choice is not None}
        return agreed.model_copy(update=placed)

    @property
    def names(self) -> tuple[str, ...]:
        """Sites by their numbers."""
        return tuple(site.name for site in self.sites)

    def _wrong(self) -> str | None:
        """What cannot be in any network, as a sentence."""
        if twice := first_duplicate(self.names) or first_duplicate([site.address for site in self.sites]):
            return f"there are two sites {twice}"
        if "nodes" in self.graph.parameters:
            return "graph.nodes is the number of sites: leave it out"
        return None

    def _misformed(self) -> str | None:
        """What a network that learns a model lacks or has too much, and one that learns a graph."""
        graph, data = is_graph_learning(self.algorithm), self.data
        records = {"data.inputs": data.inputs, "model": self.model}
        signals = {"data.vertices": data.vertices}
        beside = {"data.labels": data.labels, "data.classes": data.classes, "batch": self.batch}
        needed, others = (signals, {**records, **beside}) if graph else (records, signals)
        learns = f"{self.algorithm.name} learns a {'graph' if graph else 'model'}"
        if missing := [key for key, value in needed.items() if value is None]:
            return f"{learns}, and {missing[0]} is missing"
        if idle := [key for key, value in others.items() if value is not None]:
            return f"{learns}, and {idle[0]} is for other networks: leave it out"
        if not graph and (data.labels is None) == (data.classes is None):
            return "give data.labels or data.classes, and one of them only"
        twice = None if graph else first_duplicate(data.order)
        return None if twice is None else f"data.labels has {twice!r} twice"

    def config(self, data: Choice | None = None, sharding: Choice | None = None) -> Config:
        """The same run as a simulation has it; a network does not say whose data are where."""
        table = self.model_dump(exclude={"sites", "data"}, exclude_none=True)
        table["graph"]["nodes"] = len(self.sites)
        own = {"data": data, "sharding": sharding}
        return Config.parse({**table, **{key: choice for key, choice in own.items() if choice is not None}})


class Certificates(Section):
    """The site's own certificate and secret key, and the certificate of the authority it trusts."""

    certificate: Path
    key: Path
    authority: Path


class SiteConfig(Section):
    """NODE.toml, a site's own. Paths are relative to the file.

    `peer_timeout` are seconds that a neighbour may be silent. With `noise_seed` the noise is that of a simulation and
    protects nothing; else it comes from a secret key in the `state` folder.
    """

    name: SiteName
    network: Path
    listen: Address | None = None
    state: Path = Path("state")
    peer_timeout: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    checkpoint_every: int = Field(default=10, ge=1)
    metrics_address: Address | None = None
    noise_seed: int | None = Field(default=None, ge=0, lt=2**63)
    certificates: Certificates
    data: Choice

    @classmethod
    def load(cls, path: Path) -> SiteConfig:
        """The file at `path`, with the network and the certificates that it names, and all that they must be."""
        written = checked(cls, read_toml(path), str(path))
        folder, files = path.parent, written.certificates
        site = written.model_copy(
            update={
                "network": folder / written.network,
                "state": folder / written.state,
                "certificates": Certificates(**{key: folder / file for key, file in files.model_dump().items()}),
                "data": _placed(written.data, folder),
            }
        )
        if site.name not in site.network_config.names:
            raise TacitError(
                f"{path}: " + str(unknown(f"site of {site.network}", site.name, site.network_config.names))
            )
        if site.identity.name != site.name:
            raise TacitError(f'{files.certificate} is the certificate of "{site.identity.name}", not of "{site.name}"')
        return site

    @cached_property
    def network_config(self) -> NetworkConfig:
        """What all sites have agreed on, as it was when first asked for."""
        return NetworkConfig.load(self.network)

    @cached_property
    def identity(self) -> SiteIdentity:
        """Who it is for the others, likewise."""
        return SiteIdentity.load(self.certificates.certificate, self.certificates.key, self.certificates.authority)

    @property
    def node(self) -> int:
        """Its number in the network."""
        return self.network_config.names.index(self.name)

    @property
    def listen_address(self) -> str:
        """Where it listens: where it says, or at the port that the others know, on all interfaces."""
        port = self.network_config.sites[self.node].address.rpartition(":")[2]
        return self.listen or f"{_ANYWHERE}:{port}"


def _placed(choice: Choice, folder: Path) -> Choice:
    """A choice whose files are looked for in `folder`."""
    name, path = choice.name, choice.parameters.get("path")
    files = {"path": str(folder / path)} if isinstance(path, str) else {}
    name = str(folder / name) if ".py:" in name else name
    return Choice.model_validate({**choice.model_dump(), **files, "name": name})
