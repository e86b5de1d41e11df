"""The support of graph-learning methods: small runs with noise, and what their statements say."""

from __future__ import annotations

import numpy as np

from tacit.graph_learning import GraphLearningRun, GraphMethod, Signals, graph_methods
from tacit.graphs import graphs
from tacit.privacy import Noise, plan
from tacit.support.cells import NOT_AMPLIFIED, OWN_BOUND, Answer, Method, MethodSupport
from tacit.support.training import ABSENT, AT_SITES, IN_SIMULATION, ON_CLUSTER, WAITS, RealNetwork, samplings

_CLIENTS, _SIGNALS, _VERTICES, _EPSILON, _DELTA, _ROUNDS = 3, 20, 4, 5.0, 1e-4, 2
_PARAMETERS = {"beta": 0.5, "rho": 1.0, "lam": 0.5}  # sites and small runs need values; `GraphLearner` chooses them


def graph_support(method: Method) -> MethodSupport:
    """Return the support of a graph-learning method.

    Raises:
        TacitError: The method cannot run with these settings.
    """
    run = small_graph_run(method)
    task, statement = run.task, run.privacy
    releases = plan(run.method.privacy, _ROUNDS, task.sampling, task.nodes)
    accounted = task.sampling.kind, task.sampling.relation
    found = Answer("proven", NOT_AMPLIFIED)
    if statement.guaranteed is None:
        found = Answer("no bound known", statement.reason or "")
    elsewhere = Answer("not applicable", "every signal is used, and the guarantee is for replacing one")
    answers = {pair: found if pair == accounted else elsewhere for pair in samplings()}
    reason = OWN_BOUND if found.status == "proven" else found.reason
    runtimes = {
        IN_SIMULATION: Answer("supported"),
        ON_CLUSTER: Answer("refused", "tacit learn-graph runs in one process"),
        AT_SITES: Answer("supported"),
        ABSENT: WAITS,
    }
    noise = releases[0].mechanism.name
    return MethodSupport(
        method, noise, statement.unit, answers, {statement.adversary: Answer(found.status, reason)}, runtimes
    )


def small_graph_run(method: Method) -> GraphLearningRun:
    """Return a finished run of the method on generated signals, with noise for an ε."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(_SIGNALS, _VERTICES)) for _ in range(_CLIENTS)]
    known = graph_methods.parameters(method.name)
    settings = {key: value for key, value in _PARAMETERS.items() if key in known} | dict(method.settings)
    made: GraphMethod[object] = graph_methods.build(method.name, {**settings, "rounds": _ROUNDS})
    clip = 10.0 if made.statistic == "differences" else None
    task = Signals(tables, clip=clip, noise=Noise.from_seed(0))
    network = RealNetwork(graphs.build("ring", {"nodes": _CLIENTS}))
    run = GraphLearningRun(task, made.with_privacy(_EPSILON, _DELTA), network, delta=_DELTA, quiet=True)
    return run.go()
