"""network.toml: what all sites of a network agree on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from tacit.errors import TacitError
from tacit.runs import (
    KEY_GRAPHS,
    Batch,
    Config,
    ConfigSection,
    NamedPart,
    PrivacyTarget,
    read_toml,
    validate_section,
)
from tacit.sites.data_format import DataFormat, in_folder
from tacit.sites.names import Address, PublicKey, SiteName, first_duplicate
from tacit.sites.signals import is_graph_learning

_PATHS = ("path", "test_path")  # parameters that name files


class SiteAddress(ConfigSection):
    """One entry of [[sites]] in network.toml. `records` is the public number of the site's training records.

    `public_key` is the X25519 key of the site for paired noise, in base64.
    """

    name: SiteName = Field(description="name of the site, as in its certificate")
    address: Address = Field(description="host and port at which the other sites reach it")
    records: int | None = Field(default=None, ge=1, description="public number of its training records")
    public_key: PublicKey | None = Field(default=None, description="its X25519 key for paired noise, in base64")


class NetworkConfig(ConfigSection):
    """The contents of network.toml, which is the same file at every site. The first site is node 0, and so on.

    Every `epoch` of paired noise has new keys.

    >>> table = {"name": "hospitals", "rounds": 9, "data": {"inputs": [64], "classes": 10}, "graph": "ring"}
    >>> sites = [{"name": f"site-{i}", "address": f"127.0.0.1:{7400 + i}"} for i in (1, 2, 3)]
    >>> network = NetworkConfig.parse({**table, "algorithm": "sgp", "model": "logistic", "sites": sites})
    >>> network.names, network.config().graph.parameters
    (('site-1', 'site-2', 'site-3'), {'nodes': 3})
    >>> NetworkConfig.parse({**table, "algorithm": "sgp", "sites": [{"name": "site-1", "adress": "here:1"}]})
    Traceback (most recent call last):
    tacit.errors.TacitError: unknown key of [sites] in network.toml "adress"; did you mean "address"?
    """

    name: str = Field(pattern=r"^[\w\-. ]*\w$", description="name of the network")
    rounds: int = Field(ge=1, description="number of rounds")
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of public random numbers, not of the noise")
    evaluate_every: int | None = Field(default=None, ge=1, description="rounds between two evaluations")
    data: DataFormat = Field(description="the format of the data of every site")
    graph: NamedPart = Field(description="which sites send messages to which; without nodes")
    algorithm: NamedPart = Field(description="the method; its other keys are parameters")
    model: NamedPart | None = Field(default=None, description="the model of every site; not for graph learning")
    batch: Batch | None = Field(default=None, description="the records of one step")
    privacy: PrivacyTarget = Field(default=PrivacyTarget(), description="the privacy to guarantee")
    epoch: int = Field(default=1, ge=1, lt=2**63, description="paired noise: raised when keys or sites change")
    sites: tuple[SiteAddress, ...] = Field(min_length=1, description="the sites; the first is node 0, and so on")

    @classmethod
    def parse(cls, table: Mapping[str, Any], where: str = "network.toml") -> NetworkConfig:
        """Check a table of settings; `where` names it in errors."""
        network = validate_section(cls, table, where)
        if problem := network._sites_problem() or network._format_problem():
            raise TacitError(f"{where}: {problem}")
        return network

    @classmethod
    def load(cls, path: Path) -> NetworkConfig:
        """Read network.toml. Paths in it are relative to its folder."""
        network = cls.parse(read_toml(path), str(path))
        parts = {key: getattr(network, key) for key in ("graph", "algorithm", "model")}
        resolved: dict[str, Any] = {
            key: with_folder(choice, path.parent) for key, choice in parts.items() if choice is not None
        }
        resolved["data"] = network.data.with_folder(path.parent)
        keys = network.privacy.keys
        if keys is not None and keys not in KEY_GRAPHS:
            resolved["privacy"] = network.privacy.model_copy(update={"keys": str(path.parent / keys)})
        return network.model_copy(update=resolved)

    @property
    def names(self) -> tuple[str, ...]:
        """The sites' names in the order of their node ids."""
        return tuple(site.name for site in self.sites)

    @property
    def addresses(self) -> dict[str, str]:
        """The sites' addresses by name."""
        return {site.name: site.address for site in self.sites}

    @property
    def records(self) -> tuple[int, ...] | None:
        """The public number of training records of every site; None if network.toml does not have them."""
        declared = [site.records for site in self.sites if site.records is not None]
        return tuple(declared) or None

    @property
    def public_keys(self) -> dict[str, str]:
        """The public keys for paired noise by site, of the sites that have one."""
        return {site.name: site.public_key for site in self.sites if site.public_key is not None}

    def config(self, data: NamedPart | None = None, sharding: NamedPart | None = None) -> Config:
        """The config of the same run as a simulation, with these data: network.toml does not name them."""
        table = self.model_dump(exclude={"sites", "data", "epoch"}, exclude_none=True)
        table["graph"]["nodes"] = len(self.sites)
        choices = {"data": data, "sharding": sharding}
        return Config.parse({**table, **{key: choice for key, choice in choices.items() if choice is not None}})

    def _sites_problem(self) -> str | None:
        if name := first_duplicate(self.names):
            return f"two sites have the name {name}"
        if address := first_duplicate(self.addresses.values()):
            return f"two sites have the address {address}"
        if self.records is not None and len(self.records) < len(self.sites):
            return "some sites have records and some do not: set records of every site, or of none"
        if self.public_keys and first_duplicate(self.public_keys.values()):
            return "two sites have the same public_key: each site needs a private key of its own"
        if "nodes" in self.graph.parameters:
            return "remove graph.nodes: it is the number of sites"
        if self.privacy.population is not None or self.privacy.population_budget is not None:
            return "remove privacy.population and privacy.population_budget: each site sets its own in node.toml"
        return None

    def _format_problem(self) -> str | None:
        """Return which keys are missing or not allowed: training and graph learning need different ones."""
        graph, data = is_graph_learning(self.algorithm), self.data
        if (key := data.unused_feature_key) is not None:
            return f"data.{key} has an effect only with data.features: remove it"
        for_records: dict[str, Any] = {"data.inputs": data.inputs, "model": self.model}
        for_signals = {"data.vertices": data.vertices}
        optional: dict[str, Any] = {"data.labels": data.labels, "data.classes": data.classes, "batch": self.batch}
        optional["data.features"] = data.features
        if data.columns is not None and not graph:
            return self._columns_problem()
        optional |= {"data.columns": data.columns, "data.missing": data.missing}
        required, forbidden = (for_signals, {**for_records, **optional}) if graph else (for_records, for_signals)
        what = f"{self.algorithm.name} learns a {'graph' if graph else 'model'}"
        if missing := [key for key, value in required.items() if value is None]:
            return f"{what}, so {missing[0]} is required"
        forbidden |= {"sites.records": self.records} if graph else {}
        if extra := [key for key, value in forbidden.items() if value is not None]:
            return f"{what}, so {extra[0]} has no effect: remove it"
        if not graph and (data.labels is None) == (data.classes is None):
            return "set either data.labels or data.classes"
        duplicate = None if graph else first_duplicate(data.label_order)
        return None if duplicate is None else f"data.labels contains {duplicate!r} twice"

    def _columns_problem(self) -> str | None:
        data = self.data
        given = {"inputs": data.inputs, "labels": data.labels, "classes": data.classes, "vertices": data.vertices}
        if extra := [key for key, value in given.items() if value is not None]:
            return f"data.{extra[0]} follows from data.columns: remove it"
        if self.model is None:
            return f"{self.algorithm.name} learns a model, so model is required"
        try:
            schema = data.table_schema
        except TacitError as error:
            return str(error)
        assert schema is not None
        if schema.refuses_missing:
            return 'missing = "refuse" is not accepted: others would see from one cell whether a site starts'
        return None


def with_folder(choice: NamedPart, folder: Path) -> NamedPart:
    """Return a choice whose relative paths are resolved against `folder`."""
    name, given = choice.name, choice.parameters
    files = {key: str(folder / given[key]) for key in _PATHS if isinstance(given.get(key), str)}
    name = in_folder(name, folder)
    return NamedPart.model_validate({**choice.model_dump(), **files, "name": name})
