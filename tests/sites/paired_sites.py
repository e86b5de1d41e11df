"""Networks of sites with paired noise, for several tests."""

import os
import shutil
import tomllib
from contextlib import contextmanager

import tomli_w

from tacit.sites.network_config import NetworkConfig
from tacit.sites.site_config import SiteConfig

from .six_sites import BASE, DIRECTED

PAIRED = {"epsilon": 3.0, "delta": 1e-4, "noise": "paired", "colluders": 1, "ratio": 3.0}
SIZES = {"name": "sizes", "sizes": [150, 200, 90, 120, 300, 100]}
DYN_PAIRED = {"algorithm": {"name": "dyn-d2p", "lr": 0.5}, "privacy": PAIRED, "graph": DIRECTED, "sharding": SIZES}
THREE = {
    **BASE,
    **DYN_PAIRED,
    "graph": "complete",
    "sharding": {"name": "sizes", "sizes": [150, 200, 90]},
    "privacy": {**PAIRED, "colluders": 0},
}


def change_network(folder, site=None, **changes):
    """Replace keys of network.toml, or of one entry of [[sites]]; None removes a key."""
    path = folder / "network.toml"
    table = tomllib.loads(path.read_text())
    target = table if site is None else next(each for each in table["sites"] if each["name"] == site)
    target.update(changes)
    for key in [key for key, value in target.items() if value is None]:
        del target[key]
    path.write_text(tomli_w.dumps(table))


def load(file):
    """Read node.toml and network.toml anew."""
    return SiteConfig.load(file)


def public_keys(folder):
    return NetworkConfig.load(folder / "network.toml").public_keys


@contextmanager
def other_machine(folder):
    """Use another folder for what Tacit keeps outside of state folders, as on another machine."""
    before = os.environ["TACIT_STATE"]
    os.environ["TACIT_STATE"] = str(folder)
    try:
        yield
    finally:
        os.environ["TACIT_STATE"] = before


def copy_network(folder, to):
    """Copy a network with everything that its sites keep beside it."""
    shutil.copytree(folder, to)
    return sorted(to.glob("site-*/node.toml"))
