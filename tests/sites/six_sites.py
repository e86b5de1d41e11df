"""The network of six sites that several tests run."""

from concurrent.futures import ThreadPoolExecutor

import torch

from tacit.runs import Config, Observer, from_config

from .site_networks import create_node, create_site_files, run_nodes

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


def run_beside_simulation(folder, **changes):
    """Run six sites and the simulation, and compare their models. Return the nodes, their results, the simulation."""
    config, files = create_six_sites(folder, **changes)
    nodes = [create_node(file) for file in files]
    results = run_nodes(nodes)
    simulated = from_config(config).go()
    assert simulated.models.abs().max() > 1e-3
    torch.testing.assert_close(stack_models(nodes), simulated.models, rtol=0, atol=1e-6)
    return nodes, results, simulated


class InterruptAfter(Observer):
    """Raises as Ctrl-C does, after a number of rounds."""

    def __init__(self, rounds):
        self._rounds = rounds

    def on_round(self, run):
        if run.t == self._rounds:
            raise KeyboardInterrupt


def run_with_an_interrupted_site(folder, **changes):
    """Stop one of six sites after 3 of 6 rounds, resume it, and compare the models with those of the simulation.

    Returns:
        The nodes, and the number of releases of the interrupted site when it resumed.
    """
    config, files = create_six_sites(folder, **changes)
    nodes = [create_node(file, observers=[InterruptAfter(3)] if file is files[2] else []) for file in files]
    with ThreadPoolExecutor(SITES) as pool:
        jobs = [pool.submit(node.go) for node in nodes]
        assert jobs[2].result()["stopped"] == "stopped by hand after 3 of 6 rounds"
        nodes[2] = create_node(files[2])
        releases = len(nodes[2].parts.ledger)
        jobs[2] = pool.submit(nodes[2].go)
        assert {job.result()["rounds"] for job in jobs} == {6}
    torch.testing.assert_close(stack_models(nodes), from_config(config).go().models, rtol=0, atol=1e-6)
    return nodes, releases
