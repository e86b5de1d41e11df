"""A site that learns a graph accepts every finite signal, and one signal changes nothing but released values."""

import numpy as np
import pytest
import torch

from tacit.graph_learning import GraphLearningRun
from tacit.networks import run_on_threads
from tacit.sites.build import build_site
from tacit.sites.site_config import SiteConfig
from tests.graph_learning.adversarial import recorded, rows

from .small_network import create_small_network
from .test_build import GRAPH

MODES = {
    "once": {},
    "once, gram": {"clip": None},
    "rounds": {"release": "rounds"},
    "local steps": {"release": "rounds", "K": 2},
}


def learn(files):
    """Run one thread per site. Site 1 is the attacked one."""
    parts = [build_site(SiteConfig.load(node)) for node in files.nodes]

    def host(network):
        part = parts[int(network.nodes[0])]
        return GraphLearningRun(part.task, part.algorithm, network, delta=part.delta, quiet=True).go()

    return run_on_threads(parts[0].graph, host)


@pytest.mark.parametrize("mode", MODES)
def test_one_signal_of_a_site_changes_released_values_only(tmp_path, mode, monkeypatch):
    algorithm = {**GRAPH["algorithm"], **MODES[mode]}
    table = {**GRAPH, "algorithm": {key: value for key, value in algorithm.items() if value is not None}}
    signals, seen = None, set()
    for number, key in enumerate(("zero", "largest float", "largest with both signs", "subnormal", "ordinary")):
        files = create_small_network(tmp_path / str(number), table, noise_seed=2)
        (path,) = files.nodes[1].parent.glob("*.npz")
        signals = np.ones_like(np.load(path)["signals"]) if signals is None else signals  # all others are constant
        signals[0] = rows(signals.shape[1])[key]
        np.savez(path, signals=signals)
        with recorded(monkeypatch) as releases:
            runs = learn(files)
        assert all(torch.isfinite(run.graphs).all() for run in runs), key
        assert all(run.stopped is None for run in runs), key
        scales = sorted(float(sensitivity[0]) for _, sensitivity, _ in releases) if mode.startswith("once") else ()
        rounds = runs[1].t if not mode.startswith("once") else None  # otherwise computed from released values
        seen.add((len(releases), *scales, rounds, runs[1].privacy.guaranteed, str(runs[1].privacy.note)))
    assert len(seen) == 1
