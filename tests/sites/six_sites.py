"""The network of six sites that several tests run."""

import torch

from tacit.runs import Config

from .site_networks import create_site_files

SITES = 6
BASE = {
    "name": "six",
    "rounds": 6,
    "evaluate_every": 6,
    "seed": 3,
    "data": "digits",
    "model": "logistic",
    "batch": {"size": 8},
    "graph": {"name": "ring", "nodes": SITES},
}
TARGET = {"epsilon": 3.0, "delta": 1e-4}
DIRECTED = {"name": "one-peer-exponential", "nodes": SITES}
DYN_D2P = {"algorithm": {"name": "dyn-d2p", "lr": 0.5}, "privacy": TARGET, "graph": DIRECTED}


def create_six_sites(folder, noise_seed=3, peer_timeout=60.0, **changes):
    """Return the config of the run, and the node.toml of each site."""
    config = {**BASE, **changes}
    options = {"peer_timeout": peer_timeout, "checkpoint_every": 2}
    return Config.parse(config), create_site_files(folder / "net", config, SITES, noise_seed, **options)


def stack_models(nodes):
    return torch.cat([node.run.models for node in nodes])
