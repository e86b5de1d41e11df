"""Six sites with real connections compute the models of the simulation, also if one of them is interrupted."""

import numpy as np
import pytest
import torch

from tacit.graph_learning import PPGL, GraphLearner
from tacit.sites.build import build_site
from tacit.sites.node import Node
from tacit.sites.site_config import SiteConfig

from .site_networks import create_node, create_site_files, run_nodes
from .six_sites import (
    BASE,
    DIRECTED,
    DYN_D2P,
    SITES,
    TARGET,
    create_six_sites,
    run_beside_simulation,
    run_with_an_interrupted_site,
    stack_models,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread")

DP_NORM = {"name": "dp-norm", "smoothness": 1.0, "lr": 0.03, "sigma": 0.01, "bound": "contraction"}
UNIT_RECORDS = {"batch": {"size": 8, "sampling": "permutation"}, "data": {"name": "digits", "normalise": "unit"}}
PARTPSP = {"name": "partpsp", "share": ["0.*"], "noise_rate": 0.001, "b": 1.0, "clip": 1.0}
MLP = {"model": {"name": "mlp", "hidden": [8]}, "graph": DIRECTED}
OPTIONS = {"mixings": 2, "momentum": 0.5, "closing_rounds": 3, "averaging": "polyak", "weights": "records"}
UNEVEN = {"graph": DIRECTED, "sharding": {"name": "sizes", "ratio": 3}}
CASES = {
    "sgp": {"algorithm": {"name": "sgp"}, "graph": DIRECTED},
    "dyn-d2p": DYN_D2P,
    "partpsp": {"algorithm": PARTPSP, **MLP},
    "lt-admm-dp": {"algorithm": {"name": "lt-admm-dp", "lr": 0.1, "clip": 1.0}, "privacy": TARGET},
    "dp-norm": {"algorithm": DP_NORM, **UNIT_RECORDS},
    "dp-norm, asynchronous": {"algorithm": {**DP_NORM, "asynchronous": True}, **UNIT_RECORDS},
    "porter": {"algorithm": {"name": "porter"}, "privacy": TARGET},
    "const-d2p, options": {"algorithm": {"name": "const-d2p", **OPTIONS}, "privacy": TARGET, **UNEVEN},
    "dp-sgd, options": {
        "algorithm": {"name": "dp-sgd", "local_steps": 2, **OPTIONS, "averaging": "none"},
        "privacy": TARGET,
        **UNEVEN,
    },
    "partpsp, mixings": {"algorithm": {**PARTPSP, "mixings": 2, "closing_rounds": 2}, **MLP},
    "correlated in time": {
        "algorithm": {"name": "dp-sgd", "lr": 0.5, "local_steps": 8},
        "privacy": {**TARGET, "correlation": "time"},
        "batch": {"size": 8, "sampling": "cyclic"},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_models_equal_those_of_the_simulation(tmp_path, case):
    nodes, results, simulated = run_beside_simulation(tmp_path, **CASES[case])
    assert {result["rounds"] for result in results} == {6}
    assert {result["stopped"] for result in results} == {None}
    for node in nodes:
        assert node.status().state == "finished"
        assert node.status().refused == node.status().missed == 0
    epsilons, expected = [result["privacy"]["guaranteed"] for result in results], simulated.privacy.guaranteed
    assert epsilons == [None] * SITES if expected is None else max(epsilons) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("clip", "statistic"), [(20.0, "differences"), (None, "gram")])
def test_learned_graph_equals_that_of_the_simulation(tmp_path, clip, statistic):
    algorithm = {"name": "ppgl", "beta": 0.2, "rho": 1.0, "lam": 0.05, **({} if clip is None else {"clip": clip})}
    privacy = {"epsilon": 2.0, "delta": 1e-5}
    changes = {"algorithm": algorithm, "privacy": privacy, "rounds": 20, "graph": {"name": "complete", "nodes": SITES}}
    table = {key: value for key, value in BASE.items() if key not in ("data", "model", "batch", "evaluate_every")}
    files = create_site_files(tmp_path / "net", {**table, **changes}, SITES, noise_seed=3)
    nodes = [create_node(file) for file in files]
    run_nodes(nodes)
    signals = [np.load(file.parent / "records.npz")["signals"] for file in files]
    method = PPGL(beta=0.2, rho=1.0, lam=0.05, rounds=20, statistic=statistic)
    learner = GraphLearner(method, epsilon=2.0, clip=clip, seed=3).fit(signals)
    graphs = torch.cat([node.run.graphs for node in nodes])
    assert learner.run_.graphs.abs().max() > 1e-3
    torch.testing.assert_close(graphs, learner.run_.graphs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", ["sgp", "lt-admm-dp", "const-d2p, options", "correlated in time"])
def test_interrupted_site_resumes(tmp_path, case):
    """The other sites wait for it, and the models are those of an uninterrupted run."""
    nodes, releases = run_with_an_interrupted_site(tmp_path, **CASES[case])
    assert all(node.status().missed == 0 for node in nodes)
    assert len(nodes[2].parts.ledger) == 2 * releases


def test_each_site_has_its_own_secret_noise(tmp_path):
    """All sites start from the same public parameters."""
    _, files = create_six_sites(tmp_path, noise_seed=None, **{**DYN_D2P, "rounds": 2})
    parts = [build_site(SiteConfig.load(file)) for file in files]
    assert len({one.task.model.initial().numpy().tobytes() for one in parts}) == 1
    assert not any(one.noise.simulated for one in parts)
    words = {one.noise.words("test", np.array([0]), 0, 4).numpy().tobytes() for one in parts}
    assert len(words) == SITES, "the noise of the same node differs"
    nodes = [Node(one) for one in parts]
    run_nodes(nodes)
    assert len({float(row[0]) for row in stack_models(nodes)}) == SITES
