"""The support matrix: every answer is what a real run does."""

import json
import warnings

import pytest

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graph_learning import graph_methods
from tacit.privacy import ModelHolder, Sampling
from tacit.runs import Config, UserParts, from_config
from tacit.support import accounting_support, method_support, noise_support, small_graph_run, support_matrix
from tacit.tasks import datasets
from tacit.threats import bound_against

DATA = datasets.build("digits", {"normalise": "unit"})
NODES, ROUNDS, EPSILON = 4, 2, 4.0


@pytest.fixture(scope="module")
def matrix():
    return {row.method.title: row for row in support_matrix()}


def real_run(method, sampling, relation, **privacy):
    """A finished run of the method, with a target ε or with the noise of its own parameters."""
    noise = {} if privacy else dict.fromkeys(algorithms.noise_parameters(method.name), 2.0)
    batch = {"size": "all"} if sampling == "none" else {"size": 8, "sampling": sampling}
    table = {
        "rounds": ROUNDS,
        "batch": {**batch, "relation": relation},
        "graph": {"name": "complete", "nodes": NODES},
        "algorithm": {
            "name": method.name,
            **noise,
            **{k: list(v) if isinstance(v, tuple) else v for k, v in method.settings},
        },
        "privacy": {"delta": 1e-4, **privacy},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_config(Config.parse(table), UserParts(data=DATA)).go()


def test_every_method_has_a_row(matrix):
    makers = {algorithms[row.method.name] for row in matrix.values() if row.method.name in algorithms}
    assert makers == {algorithms[name] for name in algorithms}
    assert set(graph_methods) <= set(matrix)
    names = [row.method.name for row in matrix.values()]
    assert len(names) > len(set(names))  # some settings change an answer


@pytest.mark.parametrize("name", [name for name in algorithms if algorithms.noise_parameters(name)])
def test_a_proven_answer_is_the_guarantee_of_a_real_run(matrix, name):
    row = next(row for row in matrix.values() if row.method.name == name)
    proven = [pair for pair, answer in row.samplings.items() if answer.status == "proven"]
    assert proven
    for sampling, relation in proven:
        privacy = real_run(row.method, sampling, relation, epsilon=EPSILON).privacy
        assert 0 < privacy.guaranteed <= EPSILON, (sampling, relation)
        assert (privacy.relation, privacy.unit) == (relation, row.unit)


def test_without_a_known_bound_a_real_run_states_no_epsilon(matrix):
    unknown = [row for row in matrix.values() if next(iter(row.adversaries.values())).status == "no bound known"]
    assert {row.noise for row in unknown} == {"unproven"}
    for row in unknown:
        privacy = real_run(row.method, "poisson", "replace-one").privacy
        assert privacy.guaranteed is None
        assert privacy.reason == row.samplings["poisson", "replace-one"].reason
        with pytest.raises(TacitError):
            real_run(row.method, "poisson", "replace-one", epsilon=EPSILON)
    other_relation = matrix["dp-norm"].samplings["poisson", "add-remove"]
    assert other_relation.status == "no bound known"
    assert (
        real_run(matrix["dp-norm"].method, "poisson", "add-remove", epsilon=EPSILON).privacy.relation == "replace-one"
    )


def test_combinations_that_do_not_apply_are_refused(matrix):
    refused = {
        (row.method, pair): answer.reason
        for row in matrix.values()
        if row.method.name in ("dyn-d2p", "porter", "partpsp")
        for pair, answer in row.samplings.items()
        if answer.status == "not applicable"
    }
    kinds = ("cyclic", "permutation", "without-replacement")
    assert {pair for _, pair in refused} == {(kind, "add-remove") for kind in kinds}
    for (method, pair), reason in refused.items():
        with pytest.raises(TacitError) as error:
            real_run(method, *pair)
        assert reason == f"refused: {error.value}"
    for name in ("non-private", "ecl", "lt-admm", "single-node"):
        assert {answer.status for answer in matrix[name].samplings.values()} == {"not applicable"}
        with pytest.raises(TacitError, match="adds no noise"):
            real_run(matrix[name].method, "poisson", "add-remove", epsilon=EPSILON)


def test_answers_about_holders_of_models_are_those_of_the_threat_analysis(matrix):
    title = ModelHolder("all").title
    for row in matrix.values():
        if row.method.name in graph_methods or row.noise not in ("gaussian", "laplace"):
            continue
        run = real_run(row.method, "poisson", "replace-one", epsilon=EPSILON)
        bound, answer = bound_against(run, ModelHolder("all")), row.adversaries[title]
        assert (bound.epsilon is not None) == (answer.status == "proven"), row.method.title
        if answer.status == "proven":  # exact averaging of four nodes hides most of what mixing can hide
            assert (bound.epsilon < run.privacy.guaranteed) == (answer.reason == "a bound of its own"), row.method.title


def test_known_answers(matrix):
    """Facts of the documentation, written by hand."""
    holder = ModelHolder("mean").title
    for name in ("dp-norm", "partpsp", 'dyn-d2p, share = ["0.weight"], local = "exact"'):
        assert matrix[name].adversaries[holder].reason == "the models contain values without noise"
    assert matrix["dp-sgd, local_steps = 1"].adversaries[holder].reason == "a bound of its own"
    assert matrix["dp-sgd"].adversaries[holder].reason == "the eavesdropper's bound"
    assert (matrix["sgpdp"].noise, matrix["sgpdp"].unit) == ("laplace", "node")
    assert matrix['sgpdp, sensitivity = "real"'].runtimes["sites"].status == "refused"
    assert "simulation only" in matrix['sgpdp, sensitivity = "real"'].runtimes["cluster"].reason
    assert matrix["sgpdp"].runtimes["sites, some absent"].status == "refused"
    assert matrix["sgpdp, sync_every = 0"].runtimes["sites, some absent"].status == "supported"
    assert matrix["dyn-d2p"].runtimes["sites, some absent"].status == "supported"


def test_what_the_accountant_supports():
    answers = accounting_support()
    assert answers["laplace", "poisson", "add-remove"].reason == "with amplification by sampling"
    assert answers["gaussian", "permutation", "replace-one"].reason == "without amplification by sampling"
    assert {answers["unproven", kind, "replace-one"].status for kind in ("none", "poisson")} == {"no bound known"}
    with pytest.raises(TacitError):
        Sampling("permutation", DATA.y.numpy()[:1] * 0.0 + 0.1, "add-remove")
    assert answers["gaussian", "permutation", "add-remove"].status == "not applicable"


def test_secret_noise_is_refused_on_a_cluster():
    answers = noise_support()
    assert {pair for pair, answer in answers.items() if answer.status == "refused"} == {("cluster", "secret")}
    assert "one process" in answers["cluster", "secret"].reason


@pytest.mark.parametrize("name", list(graph_methods))
def test_graph_learners_have_the_guarantee_of_a_run(matrix, name):
    row = matrix[name]
    privacy = small_graph_run(row.method).privacy
    assert row.adversaries[privacy.adversary].status == "proven"
    assert 0 < privacy.guaranteed <= 5.0
    assert row.samplings["none", privacy.relation].status == "proven"


def test_the_command_prints_the_matrix_and_the_reasons(tacit, matrix):
    listed = json.loads(tacit("list", "dp-norm", "--support", "--json").out)["methods"]
    assert listed == json.loads(json.dumps([row.as_dict() for row in method_support("dp-norm")]))
    printed = tacit("list", "dp-norm", "--support").out
    assert "dp-norm, asynchronous = true: unproven noise, protects a record" in printed
    assert "no bound known (the models contain values without noise)" in printed
    whole = tacit("list", "--support").out
    for title in matrix:
        assert f"\n{title} " in whole
    assert tacit("list", "ring", "--support").err.startswith('error: unknown algorithm "ring"')


@pytest.mark.parametrize("name", ["const-d2p", "dp-sgd", "porter", "lt-admm-dp", "dp-norm", "non-private"])
def test_answers_about_correlated_noise_are_those_of_real_runs(matrix, name):
    row = matrix[name]
    graph = {"name": "ring", "nodes": 4}
    targets = {
        "paired": ({"noise": "paired"}, {}),
        "correlated in time": ({"correlation": "time"}, {"size": 8, "sampling": "cyclic"}),
    }
    for kind, (privacy, batch) in targets.items():
        target = {"privacy": {"epsilon": 2.0, **privacy}, "batch": batch}
        config = Config.parse({"rounds": 2, "graph": graph, "algorithm": name, **target})
        if row.correlations[kind].status == "proven":
            assert from_config(config).planned().guaranteed <= 2.0
        else:
            with pytest.raises(TacitError):
                from_config(config)
