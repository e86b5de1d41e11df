"""Every registered algorithm on one node, two components and a directed graph works, or is refused in one sentence."""

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import from_matrices, graphs
from tacit.networks import Simulated
from tacit.runs import Config, UserParts, from_config
from tests.helpers import quadratic_task, run_rounds

NAMES = list({algorithms[name]: name for name in algorithms}.values())
PAIR = np.full((2, 2), 0.5)
GRAPHS = {
    "one node": graphs.build("ring", {"nodes": 1}),
    "two components": from_matrices([np.kron(np.eye(2), PAIR)]),
    "directed": graphs.build("ring", {"nodes": 4, "directed": True}),
}


def parameters(name):
    noise = dict.fromkeys(algorithms.noise_parameters(name), 2.0)
    given = {**noise, **algorithms.example(name)}
    return {key: value[:2] if isinstance(value, list) else value for key, value in given.items()}


def run_on(name, graph):
    config = {
        "data": {"name": "digits", "normalise": "unit"},
        "rounds": 2,
        "algorithm": {"name": name, **parameters(name)},
        "graph": {"name": "ring", "nodes": graph.nodes},
    }
    return from_config(Config.parse(config), UserParts(graph=graph)).go()


@pytest.mark.parametrize("case", GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_an_unusual_graph_works_or_is_refused_in_one_sentence(name, case):
    graph = GRAPHS[case]
    try:
        done = run_on(name, graph)
    except TacitError as error:
        text = str(error)
    else:
        assert case != "two components"
        assert bool(torch.isfinite(done.models).all())
        return
    assert text.startswith(f"{algorithms.build(name, parameters(name)).title} needs ")
    assert f'"{graph.name}" ' in text
    assert {"one node": "use at least 2 nodes", "two components": "Add links", "directed": "use a"}[case] in text
    assert "\n" not in text


def test_which_methods_need_neighbours():
    refused = {name for name in NAMES if "neighbours" in algorithms.build(name, algorithms.example(name)).needs}
    assert refused == {"dp-norm", "ecl"}


def test_lt_admm_on_one_node_is_gradient_descent():

    task = quadratic_task(nodes=1)
    algorithm = algorithms.build("lt-admm", {"lr": 0.1, "tau": 4}).with_rounds(100)
    found = algorithm.models(run_rounds(algorithm, task, Simulated(GRAPHS["one node"]), 100))
    assert torch.allclose(found[0], task.data.x.double().mean(0), atol=1e-8)
