"""ε against each adversary: by the accountant, never above the bound for all messages, and only where it is proven."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tacit.algorithms import D2P, DPSGD, algorithms, const_d2p
from tacit.errors import TacitError
from tacit.graphs import from_matrices, graphs
from tacit.networks import Simulated
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.ledger import Release
from tacit.privacy.planning import guarantee
from tacit.runs import Config, Run, from_config
from tacit.threats import PAIRS, Colluders, Eavesdropper, ModelHolder, Neighbour, against, assess
from tacit.threats.costs import SEQUENCES, _dominated
from tacit.threats.mixing import mixing
from tests.helpers import digits_task, quadratic_task

DELTA = 1e-5
ONE_PEER = graphs.build("one-peer-exponential", {"nodes": 8})


def a_run(algorithm=None, graph=ONE_PEER, rounds=6, task=None, **batches):
    algorithm = (algorithm or const_d2p(noise_multiplier=3.0)).with_rounds(rounds)
    task = task or quadratic_task(graph.nodes, **batches)
    return Run(task, algorithm.bind(task, graph), Simulated(graph), delta=DELTA)


def told(run, threat):
    return against(run, threat, planned=True).epsilon


def test_without_sampling_epsilon_is_a_closed_form():
    """Leverages of the three rounds of a period, twice; the noise multiplier is 3."""
    found = assess(a_run(), planned=True)
    hears = {1: (1, 3 / 4, 1 / 2), 2: (1, 1, 1 / 2), 4: (1, 1, 1), 3: (1, 3 / 4, 1 / 2)}
    for apart, leverages in hears.items():
        exact = mu_to_epsilon(np.sqrt(2 * sum(leverages)) / 3, DELTA)
        assert exact <= found.pairs[0, apart] <= exact * (1 + 1e-5)
        assert exact <= found.pairs[5, (5 + apart) % 8] <= exact * (1 + 1e-5)
    assert np.isnan(np.diagonal(found.pairs)).all()
    plain = a_run().planned().guaranteed
    assert [each.epsilon for each in found.against[:2]] == [plain, plain]
    assert found.pairs[0, 4] == plain


def test_the_holder_of_a_mean_over_all_has_what_a_server_would_publish():
    """Exact averaging in every round is central DP-SGD: the noise of all n nodes protects each record."""
    run = a_run(graph=graphs.build("complete", {"nodes": 9}), rounds=5)
    exact = mu_to_epsilon(np.sqrt(5 / 9) / 3, DELTA)
    assert exact <= told(run, ModelHolder()) <= exact * (1 + 1e-5)
    assert told(run, Neighbour(0)) == told(run, Eavesdropper()) == run.planned().guaranteed


def test_the_last_round_is_what_is_published():
    run = a_run(graph=graphs.build("ring", {"nodes": 5}), rounds=2)  # of full rank
    exact = {ModelHolder(): 1 + 1 / 5, ModelHolder((2,)): 1 + 1 / 3, ModelHolder("all"): 2}
    for threat, leverages in exact.items():
        epsilon = mu_to_epsilon(np.sqrt(leverages) / 3, DELTA)
        assert epsilon <= told(run, threat) <= epsilon * (1 + 1e-5)


def test_a_mean_of_push_sum_models_weighs_states_by_one_over_their_weight():
    weights = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.5]])  # node 0 gathers, node 2 runs dry
    rounds = mixing(
        const_d2p(noise_multiplier=3.0).with_rounds(2),
        quadratic_task(3),
        from_matrices([weights]),
        [Release(t, "gradient", "gaussian", np.full(3, 3.0), "none", np.ones(3), "add-remove") for t in range(2)],
    )
    np.testing.assert_allclose(rounds.kinds[-1].ends, 1 / (weights @ weights @ np.ones(3)))
    assert [kind.ends is None for kind in rounds.kinds] == [True, False]


@pytest.mark.parametrize("batches", [{}, {"batch": 2}, {"batch": 2, "sampling": "permutation"}], ids=str)
def test_more_colluders_never_have_less(batches):
    run = a_run(rounds=9, **batches)
    alone, two, four = (told(run, Colluders(nodes)) for nodes in ((1,), (1, 2), (1, 2, 3, 6)))
    assert alone <= two * 1.006
    assert two <= four * 1.006
    assert four <= run.planned().guaranteed
    assert told(run, Neighbour(1)) == alone
    assert told(run, Colluders((1, 5, 1))) == told(run, Colluders((5, 1)))


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
def test_with_sampling_it_is_the_accountant_with_scaled_noise(sampling):
    run = a_run(rounds=6, batch=2, sampling=sampling)
    leverages = 1, 3 / 4, 1 / 2
    rate, relation = run.task.sampling.rate[:1], run.task.sampling.relation
    lines = [
        Release(t, "g", "gaussian", np.array([3.0]) / np.sqrt(leverages[t % 3]), sampling, rate, relation)
        for t in range(6)
    ]
    exact = guarantee(lines, DELTA)[0]
    assert exact * 0.99 <= assess(run, planned=True).pairs[2, 3] <= exact * 1.01


def test_what_was_released_counts_and_not_what_is_planned():
    run = a_run(rounds=6)
    whole = assess(run, planned=True)
    assert [each.epsilon for each in assess(run).against] == [0.0] * 4
    run.go()
    assert assess(run).as_dict() == whole.as_dict()


def test_sequences_that_stand_for_many_dominate_each():
    rng = np.random.default_rng(0)
    noise, rates = rng.uniform(2, 4, (5, 40)), rng.choice([0.1, 0.11], 40)
    lines = [Release(t, "g", "gaussian", np.ones(1), "poisson", np.ones(1), "add-remove") for t in range(5)]
    together = _dominated(lines, noise, rates, DELTA)
    assert 1 < len(np.unique(together)) <= SEQUENCES
    for k in (0, 7, 23, 39):
        alone = _dominated(lines, noise[:, [k]], rates[[k]], DELTA)[0]
        assert alone * 0.995 <= together[k] <= 1.5 * alone


def test_nodes_with_data_of_other_sizes_keep_their_own_bound():
    run = from_config(
        Config.parse(
            {
                "rounds": 12,
                "graph": {"name": "one-peer-exponential", "nodes": 8},
                "sharding": {"name": "dirichlet", "alpha": 0.5},
                "batch": {"size": 8},
                "privacy": {"epsilon": 2.0},
            }
        )
    )
    pairs, plain = assess(run, planned=True).pairs, run.planned().per_node
    assert len(np.unique(run.task.sampling.rate)) == 8
    assert np.nanmax(pairs - plain[:, None]) <= 0
    assert np.nanmin(pairs / plain[:, None]) < 0.9


NOT_PROVEN = {
    "porter": {},
    "partpsp": {"share": ["0.weight"]},
    "dp-norm": {"smoothness": 0.5},
    "dp-sgd": {"local_steps": 2},
    "dp-admm": {},
    "lt-admm-dp": {},
}


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_other_methods_have_the_bound_for_all_messages(name):
    config = {
        "rounds": 4,
        "data": {"name": "digits", "normalise": "unit"},
        "model": {"name": "logistic", "biases": name == "partpsp"},
        "graph": {"name": "complete", "nodes": 4},
        "algorithm": {"name": name, **NOT_PROVEN[name]},
        "batch": {},
        "privacy": {"epsilon": 2.0},
    }
    run = from_config(Config.parse(config))
    found = assess(run, planned=True, threats=[Colluders((0, 2))])
    assert {each.epsilon for each in found.against} == {run.planned().guaranteed}
    assert found.pairs is None
    assert found.note is None
    reasons = {each.why for each in found.against[1:]}
    assert len(reasons) == 1
    assert "proven" in reasons.pop()


def test_of_all_methods_only_those_that_mix_only_say_so():
    made = {name: algorithms.build(name, PARAMETERS.get(name, {})) for name in algorithms}
    assert {
        name
        for name, each in made.items()
        if "privacy" in vars(type(each)) and "mixing_only_clip" in vars(type(each.privacy))
    } == {name for name, each in made.items() if type(each) in (D2P, DPSGD)}
    one_step = DPSGD(local_steps=1, scale=3.0)
    assert one_step.privacy.mixing_only_clip(0) is not None
    assert replace(one_step, local_steps=2).privacy.mixing_only_clip(0) is None
    assert replace(const_d2p(), share=("0.*",)).privacy.mixing_only_clip(0) is None


PARAMETERS = {"d2p": {"clip": [1.0], "noise_multiplier": [1.0]}, "partpsp": {"share": ["0.*"]}}


def test_dp_sgd_with_one_local_step_is_covered():
    run = a_run(DPSGD(local_steps=1, scale=3.0), graph=graphs.build("complete", {"nodes": 4}), rounds=3)
    exact = mu_to_epsilon(np.sqrt(3 / 4) / 3, DELTA)
    assert exact <= told(run, ModelHolder()) <= exact * (1 + 1e-5)


@dataclass(frozen=True, kw_only=True)
class Remembering(D2P):
    """Someone's own variant, of which nothing is proven."""


def test_what_is_derived_must_answer_for_itself():
    run = a_run(Remembering(clip=const_d2p().clip, noise=const_d2p().noise, scale=3.0))
    assert told(run, Neighbour(1)) == told(run, ModelHolder()) == run.planned().guaranteed
    assert "not proven" in against(run, Neighbour(1), planned=True).why


def test_parameters_that_stay_at_their_node_are_remembered():
    task = digits_task(8, share=("0.weight",), bounds="all")
    assert task.model.shared < task.d
    run = a_run(task=task)
    assert told(run, Neighbour(1)) == run.planned().guaranteed
    assert "do not share" in against(run, Neighbour(1), planned=True).why


def test_where_some_nodes_are_hosted_their_own_bounds_are_told():
    """Of nodes 1 and 6, here, node 1 is one of the adversary's: what is left is the bound of node 6."""
    whole = quadratic_task(8, records=4, batch=2)
    run = a_run(const_d2p(noise_multiplier=3.0), task=whole.host([1, 6]))
    found = against(run, Colluders((0, 1)), planned=True)
    assert (found.victim, found.epsilon) == (6, run.planned().per_node[1])
    assert "hosted elsewhere" in found.why


def test_no_privacy_is_none_for_everyone():
    run = from_config(Config.parse({"rounds": 2, "graph": {"name": "ring", "nodes": 4}, "algorithm": "sgp"})).go()
    found = assess(run)
    assert {each.epsilon for each in found.against} == {None}
    assert {each.why for each in found.against} == {"values left the nodes without noise"}


def test_large_networks_have_no_table_of_pairs():
    run = a_run(graph=graphs.build("one-peer-exponential", {"nodes": PAIRS + 2}), rounds=3)
    found = assess(run, planned=True)
    assert found.pairs is None
    assert f"at most {PAIRS} nodes" in found.against[1].why
    assert found.against[1].epsilon == run.planned().guaranteed
    assert found.against[3].epsilon < run.planned().guaranteed


def test_random_rounds_are_looked_at_one_by_one():
    graph = graphs.build("one-peer-exponential", {"nodes": 4})
    config = {"rounds": 8, "graph": {"name": "one-peer-exponential", "nodes": 4, "drop_links": 0.5}}
    run = from_config(
        Config.parse({**config, "algorithm": {"name": "const-d2p", "noise_multiplier": 3.0}, "batch": {}})
    )
    without = a_run(graph=graph, rounds=8)
    assert run.network.graph.period is None
    some, all_ = (told(each, ModelHolder("all")) for each in (run, without))
    assert all_ < some < run.planned().guaranteed  # a node that keeps its value to itself is given as it is


def test_nodes_that_are_not_there():
    run = a_run()
    for threat in (Neighbour(8), Colluders((0, -1)), ModelHolder((9,))):
        with pytest.raises(TacitError, match="those of this network are 0 to 7"):
            against(run, threat)
    with pytest.raises(TacitError, match="at least one node"):
        Colluders(())


def test_one_node_alone_and_all_together():
    alone = a_run(graph=graphs.build("complete", {"nodes": 1}), rounds=2)
    assert [each.epsilon for each in assess(alone, planned=True).against] == [alone.planned().guaranteed] * 3
    everyone = against(a_run(), Colluders(tuple(range(8))), planned=True)
    assert (everyone.epsilon, everyone.victim) == (0.0, None)
