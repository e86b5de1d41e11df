"""Check the TOML blocks of a page with the code that reads configs."""

import tomllib
from collections.abc import Mapping
from typing import Any

from tacit.reproduce.experiment import Experiment
from tacit.runs import Config, validate_section
from tacit.runs.config_sections import ALGORITHM_KEYS, DropoutKeys, FeatureKeys, RegularisationKeys
from tacit.runs.resolved_config import PART_REGISTRIES
from tacit.sites import NetworkConfig
from tacit.sites.site_config import SiteConfig
from tacit.tasks.data.columns import parse_column

_SHARED_KEYS = {
    "data": tuple(FeatureKeys.model_fields),
    "graph": tuple(DropoutKeys.model_fields),
    "model": tuple(RegularisationKeys.model_fields),
    "algorithm": ALGORITHM_KEYS,
}
_NETWORK_ONLY = {"inputs", "classes", "vertices"}  # keys of [data] in network.toml

# A fragment of a file of a site is checked as a part of these.
_NETWORK = {
    "name": "network",
    "rounds": 10,
    "data": {"inputs": [4], "classes": 2},
    "graph": "ring",
    "algorithm": "dyn-d2p",
    "model": "logistic",
    "sites": [{"name": "site-1", "address": "127.0.0.1:7401"}],
}
_CERTIFICATES = {"certificate": "site-1.crt", "key": "site-1.key", "authority": "authority.crt"}
_SITE = {"name": "site-1", "network": "network.toml", "certificates": _CERTIFICATES, "data": {"name": "npz"}}


def check_config(text: str) -> str:
    """Check a config or a fragment of one, and return its kind. Raises an error if it is wrong.

    The keys decide which kind it is: a config of `tacit train`, a network.toml, a node.toml or an experiment.
    """
    table = tomllib.loads(text)
    data = table.get("data", {})
    if "sites" in table or _NETWORK_ONLY & set(data):
        NetworkConfig.parse({**_NETWORK, **table})
        return "network.toml"
    if "certificates" in table or isinstance(table.get("network"), str):
        validate_section(SiteConfig, {**_SITE, **table}, "node.toml")
        return "node.toml"
    if "base" in table or "axes" in table:
        validate_section(Experiment, table, "the experiment")
        return "experiment"
    _check_run(table)
    return "config"


def _check_run(table: Mapping[str, Any]) -> None:
    data = table.get("data")
    if isinstance(data, dict) and "columns" in data:  # a fragment may declare columns only
        table = {**table, "data": {"name": "csv", **data}}
    config = Config.parse(table)
    for kind, registry in PART_REGISTRIES.items():
        part, shared = getattr(config, kind), _SHARED_KEYS.get(kind, ())
        if ".py:" not in part.name and part.name != "auto":
            registry.check(part.name, part.parameters, also=shared)
    for name, declared in config.data.parameters.get("columns", {}).items():
        parse_column(name, declared)
