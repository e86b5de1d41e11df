"""Networks of three sites, for tests that build one site or change its files."""

import tomllib

import tomli_w

from tacit.runs import Config
from tacit.sites.build import build_site
from tacit.sites.setup import create_network
from tacit.tasks import Clip

UNEVEN_SIZES = {"name": "sizes", "sizes": [150, 200, 90]}
BASE = {
    "rounds": 4,
    "seed": 5,
    "graph": "complete",
    "sharding": UNEVEN_SIZES,
    "batch": {"size": 16},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5},
    "privacy": {"epsilon": 2.0, "delta": 1e-3},
}


def create_small_network(folder, table, **options):
    return create_network(folder, 3, Config.parse(table), **options)


def change_toml(path, **changes):
    """Replace keys of a TOML file; None removes a key."""
    table = {**tomllib.loads(path.read_text()), **changes}
    path.write_text(tomli_w.dumps({key: value for key, value in table.items() if value is not None}))


def first_release(site):
    """Return the site's first release, a gradient with noise, which is then in its ledger."""
    part = build_site(site)
    gradient = part.task.gradient(part.task.initial(), 0, Clip(1.0))
    (planned,) = part.algorithm.privacy.releases(0, part.task.nodes, part.task.sampling)
    return planned.mechanism.release(gradient)
