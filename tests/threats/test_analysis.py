"""ε against each adversary: by the accountant, never above the eavesdropper's, and smaller only where proven."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tacit.algorithms import D2P, DPSGD, MixingOptions, algorithms, const_d2p
from tacit.algorithms.dpsgd import DPSGDPrivacy
from tacit.errors import TacitError
from tacit.graphs import from_matrices, graphs
from tacit.networks import Simulated
from tacit.privacy import (
    Coalition,
    Eavesdropper,
    Gaussian,
    MetricReader,
    ModelHolder,
    Release,
    Sampling,
    guarantee,
    mu_to_epsilon,
)
from tacit.runs import Config, Run, from_config
from tacit.threats import analyse_threats, bound_against
from tacit.threats.accounting import MAX_SEQUENCES, sequence_epsilons
from tacit.threats.analysis import MAX_PAIR_NODES
from tacit.threats.rounds import mixing_rounds
from tests.helpers import adds_noise, digits_task, example_algorithm, quadratic_task, required_parameters

DELTA = 1e-5
ONE_PEER = graphs.build("one-peer-exponential", {"nodes": 8})


def a_run(algorithm=None, graph=ONE_PEER, rounds=6, task=None, **batches):
    algorithm = (algorithm or const_d2p(noise_multiplier=3.0)).with_rounds(rounds)
    task = task or quadratic_task(graph.nodes, **batches)
    return Run(task, algorithm.bind(task, graph), Simulated(graph), delta=DELTA)


def epsilon_against(run, adversary):
    return bound_against(run, adversary, planned=True).epsilon


def test_without_sampling_epsilon_is_a_closed_form():
    """Six rounds: the three rounds of a period, twice. The noise multiplier is 3."""
    found = analyse_threats(a_run(), planned=True)
    by_distance = {1: (1, 3 / 4, 1 / 2), 2: (1, 1, 1 / 2), 4: (1, 1, 1), 3: (1, 3 / 4, 1 / 2)}
    for apart, leverages in by_distance.items():
        exact = mu_to_epsilon(np.sqrt(2 * sum(leverages)) / 3, DELTA)
        assert exact <= found.pairs[0, apart] <= exact * (1 + 1e-5)
        assert exact <= found.pairs[5, (5 + apart) % 8] <= exact * (1 + 1e-5)
    assert np.isnan(np.diagonal(found.pairs)).all()
    headline = a_run().planned().guaranteed
    assert [bound.epsilon for bound in found.bounds[:2]] == [headline, headline]
    assert found.pairs[0, 4] == headline


def test_exact_averaging_gives_the_model_holder_the_bound_of_central_dp_sgd():
    """The noise of all n nodes protects each record."""
    run = a_run(graph=graphs.build("complete", {"nodes": 9}), rounds=5)
    exact = mu_to_epsilon(np.sqrt(5 / 9) / 3, DELTA)
    assert exact <= epsilon_against(run, ModelHolder()) <= exact * (1 + 1e-5)
    assert epsilon_against(run, Coalition((0,))) == epsilon_against(run, Eavesdropper()) == run.planned().guaranteed


def test_only_the_published_models_count_in_the_last_round():
    run = a_run(graph=graphs.build("ring", {"nodes": 5}), rounds=2)  # full rank
    exact = {ModelHolder(): 1 + 1 / 5, ModelHolder((2,)): 1 + 1 / 3, ModelHolder("all"): 2}
    for adversary, leverages in exact.items():
        epsilon = mu_to_epsilon(np.sqrt(leverages) / 3, DELTA)
        assert epsilon <= epsilon_against(run, adversary) <= epsilon * (1 + 1e-5)


def test_the_mean_of_push_sum_models_weighs_each_state_by_its_inverse_weight():
    weights = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.5]])  # mass moves to node 0
    rounds = mixing_rounds(
        const_d2p(noise_multiplier=3.0).with_rounds(2),
        quadratic_task(3),
        from_matrices([weights]),
        [Release(t, "gradient", Gaussian(3.0), Sampling("none", np.ones(3), "add-remove")) for t in range(2)],
    )
    np.testing.assert_allclose(rounds.kinds[-1].mean_weights, 1 / (weights @ weights @ np.ones(3)))
    assert [kind.mean_weights is None for kind in rounds.kinds] == [True, False]


@pytest.mark.parametrize("batches", [{}, {"batch": 2}, {"batch": 2, "sampling": "permutation"}], ids=str)
def test_a_larger_coalition_never_has_a_smaller_epsilon(batches):
    run = a_run(rounds=9, **batches)
    one, two, four = (epsilon_against(run, Coalition(nodes)) for nodes in ((1,), (1, 2), (1, 2, 3, 6)))
    assert one <= two * 1.006
    assert two <= four * 1.006
    assert four <= run.planned().guaranteed
    assert epsilon_against(run, Coalition((1, 5, 1))) == epsilon_against(run, Coalition((5, 1)))


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
def test_with_sampling_epsilon_comes_from_the_accountant_with_scaled_noise(sampling):
    run = a_run(rounds=6, batch=2, sampling=sampling)
    leverages = 1, 3 / 4, 1 / 2
    drawn = Sampling(sampling, run.task.sampling.rate[:1], run.task.sampling.relation)
    lines = [Release(t, "g", Gaussian(3.0 / np.sqrt(leverages[t % 3])), drawn) for t in range(6)]
    exact = guarantee(lines, DELTA)[0]
    assert exact * 0.99 <= analyse_threats(run, planned=True).pairs[2, 3] <= exact * 1.01


def test_by_default_only_past_releases_are_accounted():
    run = a_run(rounds=6)
    whole = analyse_threats(run, planned=True)
    assert [bound.epsilon for bound in analyse_threats(run).bounds] == [0.0] * 5
    run.go()
    assert analyse_threats(run).as_dict() == whole.as_dict()


def test_a_grouped_sequence_dominates_each_member():
    rng = np.random.default_rng(0)
    noise, rates = rng.uniform(2, 4, (5, 40)), rng.choice([0.1, 0.11], 40)
    lines = [Release(t, "g", Gaussian(1.0), Sampling("poisson", np.ones(1), "add-remove")) for t in range(5)]
    together = sequence_epsilons(lines, noise, rates, DELTA)
    assert 1 < len(np.unique(together)) <= MAX_SEQUENCES
    for k in (0, 7, 23, 39):
        single = sequence_epsilons(lines, noise[:, [k]], rates[[k]], DELTA)[0]
        assert single * 0.995 <= together[k] <= 1.5 * single


def test_nodes_of_different_sizes_keep_their_own_bounds():
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
    pairs, per_node = analyse_threats(run, planned=True).pairs, run.planned().per_node
    assert len(np.unique(run.task.sampling.rate)) == 8
    assert np.nanmax(pairs - per_node[:, None]) <= 0
    assert np.nanmin(pairs / per_node[:, None]) < 0.9


def declares_mixing(algorithm):
    return "privacy" in vars(type(algorithm)) and "mixing_only_clip" in vars(type(algorithm.privacy))


WITHOUT_MIXING_BOUND = {
    name: required_parameters(name) | ({"smoothness": 0.5} if "smoothness" in algorithms.parameters(name) else {})
    for name in algorithms
    if adds_noise(name) and not declares_mixing(example_algorithm(name, 1))
} | {"dp-sgd": {"local_steps": 2}}
MODELS_WITHOUT_NOISE = ("dp-norm", "partpsp")


@pytest.mark.parametrize("name", WITHOUT_MIXING_BOUND)
def test_other_algorithms_have_the_eavesdroppers_bound_against_everyone(name):
    config = {
        "rounds": 4,
        "data": {"name": "digits", "normalise": "unit"},
        "model": {"name": "logistic", "biases": "share" in WITHOUT_MIXING_BOUND[name]},
        "graph": {"name": "complete", "nodes": 4},
        "algorithm": {"name": name, **WITHOUT_MIXING_BOUND[name]},
        "batch": {"size": "all"},
        "privacy": {"epsilon": 2.0},
    }
    run = from_config(Config.parse(config))
    found = analyse_threats(run, planned=True, adversaries=[Coalition((0, 2))])
    of_models = [bound for bound in found.bounds if isinstance(bound.adversary, ModelHolder | MetricReader)]
    of_messages = [bound for bound in found.bounds if bound not in of_models]
    assert len(of_models) == len(of_messages) == 3
    assert {bound.epsilon for bound in of_messages} == {run.planned().guaranteed}
    assert all("no mixing bound is known for" in bound.reason for bound in of_messages[1:])
    assert found.pairs is None
    assert found.note is None
    if name in MODELS_WITHOUT_NOISE:
        assert {bound.epsilon for bound in of_models} == {None}
        assert {bound.reason for bound in of_models} == {"the models contain values without noise"}
    else:
        assert {bound.epsilon for bound in of_models} == {run.planned().guaranteed}


def test_exact_local_parameters_leave_no_bound_against_holders_of_models():
    """The local layer of such a model has no noise, so its holder may learn a record exactly."""
    algorithm = {"name": "const-d2p", "share": ["0.*"], "local": "exact", "noise_multiplier": 50.0}
    config = {"rounds": 2, "graph": {"name": "ring", "nodes": 4}, "model": "mlp", "algorithm": algorithm}
    run = from_config(Config.parse(config)).go()
    assert run.privacy.guaranteed is not None
    for adversary in (ModelHolder("all"), ModelHolder("mean"), ModelHolder((2,)), MetricReader()):
        assert bound_against(run, adversary).epsilon is None


class ChangedUpdate(D2P):
    """Inherits the declarations of its parent, which hold for the parent's update only."""


def test_a_derived_class_does_not_inherit_that_its_models_are_released():
    run = a_run(ChangedUpdate(clip=const_d2p().clip, noise=const_d2p().noise, scale=3.0))
    assert run.planned().covers_models is False
    assert bound_against(run, ModelHolder("all"), planned=True).epsilon is None


def test_only_algorithms_that_just_mix_declare_it():
    for name in algorithms:
        algorithm = example_algorithm(name, 1)
        assert declares_mixing(algorithm) == (type(algorithm) in (D2P, DPSGD))
    one_step = DPSGD(local_steps=1, scale=3.0)
    assert one_step.privacy.mixing_only_clip(0) is not None
    assert replace(one_step, local_steps=2).privacy.mixing_only_clip(0) is None
    assert replace(const_d2p(), share=("0.*",)).privacy.mixing_only_clip(0) is None
    for options in ({"momentum": 0.5}, {"mixings": 2}, {"closing_rounds": 1}, {"averaging": "ema"}):
        for algorithm in (one_step, const_d2p()):
            assert replace(algorithm, mixing=MixingOptions(**options)).privacy.mixing_only_clip(0) is None
    assert replace(const_d2p(), mixing=MixingOptions(weights="records")).privacy.mixing_only_clip(0) is not None


def test_dp_sgd_with_one_local_step_has_a_mixing_bound():
    run = a_run(DPSGD(local_steps=1, scale=3.0), graph=graphs.build("complete", {"nodes": 4}), rounds=3)
    exact = mu_to_epsilon(np.sqrt(3 / 4) / 3, DELTA)
    assert exact <= epsilon_against(run, ModelHolder()) <= exact * (1 + 1e-5)


@dataclass(frozen=True, kw_only=True)
class DerivedD2P(D2P):
    """A user's variant, for which nothing is proven."""


def test_a_derived_class_does_not_inherit_the_mixing_bound():
    run = a_run(DerivedD2P(clip=const_d2p().clip, noise=const_d2p().noise, scale=3.0))
    assert epsilon_against(run, Coalition((1,))) == run.planned().guaranteed
    assert "no mixing bound is known" in bound_against(run, Coalition((1,)), planned=True).reason


def test_unshared_parameters_rule_out_the_mixing_bound():
    task = digits_task(8, share=("0.weight",), bounds="all")
    assert task.model.shared < task.d
    run = a_run(task=task)
    assert epsilon_against(run, Coalition((1,))) == run.planned().guaranteed
    assert "do not share" in bound_against(run, Coalition((1,)), planned=True).reason


def test_a_host_of_some_nodes_states_their_bounds():
    """Nodes 1 and 6 are hosted here and the adversary controls node 1, so the bound of node 6 remains."""
    whole = quadratic_task(8, records=4, batch=2)
    run = a_run(const_d2p(noise_multiplier=3.0), task=whole.host([1, 6]))
    found = bound_against(run, Coalition((0, 1)), planned=True)
    assert (found.worst_node, found.epsilon) == (6, run.planned().per_node[1])
    assert "on other hosts" in found.reason


def test_without_noise_there_is_no_epsilon_against_anyone():
    run = from_config(Config.parse({"rounds": 2, "graph": {"name": "ring", "nodes": 4}, "algorithm": "sgp"})).go()
    found = analyse_threats(run)
    assert {bound.epsilon for bound in found.bounds} == {None}
    assert {bound.reason for bound in found.bounds} == {"values leave the nodes without noise"}


def test_large_networks_have_no_pairs():
    run = a_run(graph=graphs.build("one-peer-exponential", {"nodes": MAX_PAIR_NODES + 2}), rounds=3)
    found = analyse_threats(run, planned=True)
    assert found.pairs is None
    assert f"at most {MAX_PAIR_NODES} nodes" in found.bounds[1].reason
    assert found.bounds[1].epsilon == run.planned().guaranteed
    assert found.bounds[3].epsilon < run.planned().guaranteed


def test_random_rounds_are_analysed_one_by_one():
    graph = graphs.build("one-peer-exponential", {"nodes": 4})
    config = {"rounds": 8, "graph": {"name": "one-peer-exponential", "nodes": 4, "drop_links": 0.5}}
    run = from_config(
        Config.parse({**config, "algorithm": {"name": "const-d2p", "noise_multiplier": 3.0}, "batch": {"size": "all"}})
    )
    no_drops = a_run(graph=graph, rounds=8)
    assert run.network.graph.period is None
    some, all_ = (epsilon_against(each, ModelHolder("all")) for each in (run, no_drops))
    assert all_ < some < run.planned().guaranteed  # the state of a node without links shows its whole message


def test_unknown_nodes_are_refused():
    run = a_run()
    for adversary in (Coalition((8,)), Coalition((0, -1)), ModelHolder((9,))):
        with pytest.raises(TacitError, match="nodes of this network are 0 to 7"):
            bound_against(run, adversary)
    with pytest.raises(TacitError, match="at least one node"):
        Coalition(())


def test_a_single_node_and_a_coalition_of_all_nodes():
    single = a_run(graph=graphs.build("complete", {"nodes": 1}), rounds=2)
    assert [bound.epsilon for bound in analyse_threats(single, planned=True).bounds] == [
        single.planned().guaranteed
    ] * 4
    everyone = bound_against(a_run(), Coalition(tuple(range(8))), planned=True)
    assert (everyone.epsilon, everyone.worst_node) == (0.0, None)


@dataclass(frozen=True, kw_only=True)
class Momentum(DPSGD):
    """Another update with the parent's privacy plan, which is defined for it anew."""

    @property
    def privacy(self):
        return DPSGDPrivacy(self)

    def round(self, t, state, task, network):
        return super().round(t, super().round(t, state, task, network), task, network)


def test_a_plan_of_another_algorithm_gives_no_mixing_bound():
    run = a_run(Momentum(local_steps=1, scale=3.0, clip=1.0))
    assert "no mixing bound is known" in bound_against(run, Coalition((1,)), planned=True).reason
