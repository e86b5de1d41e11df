"""The options of mixing methods, for every registered algorithm: accepted without any cost of ε, or refused."""

from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import torch

from tacit.algorithms import Algorithm, MixingOptions, OptionState, Stepper, algorithms, inner_state
from tacit.audit import check_escapes
from tacit.errors import TacitError
from tacit.graphs import Dropout
from tacit.networks import Simulated, run_on_threads
from tacit.privacy import Ledger, guarantee
from tacit.runs import Config, MixingKeys
from tests.contracts.test_algorithms import (
    ALGORITHMS,
    ROUNDS,
    accepts,
    almost_noiseless,
    digits,
    graph_for,
    keeps_parameters_local,
    private,
)
from tests.contracts.test_escapes import PRIVATE_MODELS, settings
from tests.helpers import adds_noise, constant_task, run_steps

OPTIONS = {
    "closing_rounds": {"closing_rounds": 3},
    "mixings": {"mixings": 2},
    "momentum": {"momentum": 0.6},
    "weights": {"weights": "records"},
    "averaging": {"averaging": "ema"},
}
SIZES = [60, 100, 40, 150, 80]
ONE_SHOT = {"one-shot-ridge"}
WITHOUT_MIXING = {"dp-admm", "dp-norm", "ecl", "lt-admm", "lt-admm-dp", "single-node"} | ONE_SHOT
REFUSED = {
    "closing_rounds": WITHOUT_MIXING,
    "mixings": WITHOUT_MIXING,
    "momentum": WITHOUT_MIXING | {"partpsp", "sgpdp", "pedfl", "porter", "prisma"},
    "weights": {"dp-norm", "ecl", "partpsp", "sgpdp", "pedfl"} | ONE_SHOT,
    "averaging": ONE_SHOT,
}


def accepted(name):
    """All options that the algorithm accepts, at once."""
    taken = [option for option in OPTIONS if private(name).option_refusal(option) is None]
    return {key: value for option in taken for key, value in OPTIONS[option].items()}


def with_options(algorithm, options):
    return replace(algorithm, mixing=MixingOptions(**options))


def task_for(name, options, **params):
    return digits(name, sizes=SIZES, weighting=options.get("weights", "equal"), dtype=torch.float64, **params)


@pytest.fixture(params=ALGORITHMS)
def name(request):
    return request.param


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_accepted_or_refused_with_one_sentence(name, option):
    algorithm = with_options(private(name), OPTIONS[option])
    if name not in REFUSED[option]:
        Stepper(algorithm)
        return
    with pytest.raises(TacitError) as refusal:
        Stepper(algorithm)
    sentence = str(refusal.value)
    assert sentence.startswith(f"{algorithm.title} does not accept algorithm.{option}: ")
    assert len(sentence.partition(": ")[2].split()) >= 5
    assert sentence.count(". ") == 0


@pytest.mark.parametrize("option", OPTIONS)
def test_options_change_neither_the_ledger_nor_epsilon(name, option):
    """Bit for bit; with weights, value and sensitivity are scaled together, so the multipliers are the same."""
    if name in REFUSED[option]:
        pytest.skip(f"{name} refuses {option}")

    def released(options):
        task, graph = task_for(name, options), graph_for(name, 5)
        algorithm = with_options(private(name), options).bind(task, graph)
        models, _ = run_steps(algorithm, task, Simulated(graph), ROUNDS)
        return models, list(task.ledger.releases()), task.ledger

    models, plain, _ = released({})
    changed, found, ledger = released(OPTIONS[option])
    assert not models.equal(changed)
    assert ledger.unreleased == []
    assert len(found) == len(plain) > 0
    for one, other in zip(found, plain, strict=True):
        assert (one.step, one.purpose, one.unit) == (other.step, other.purpose, other.unit)
        assert type(one.mechanism) is type(other.mechanism)
        assert one.rates.tolist() == other.rates.tolist()
        exact = 1e-12 if option == "weights" else 0
        assert one.multipliers == pytest.approx(other.multipliers, rel=exact, abs=0)
    epsilons = [guarantee(releases, 1e-5) for releases in (found, plain)]
    assert epsilons[0].tolist() == pytest.approx(epsilons[1].tolist(), rel=1e-9 if option == "weights" else 0, abs=0)


def test_same_seed_gives_the_same_run(name):
    options, graph = accepted(name), graph_for(name, 5)
    algorithm = with_options(private(name), options)
    results = [run_steps(algorithm, task_for(name, options, seed=seed), Simulated(graph), ROUNDS) for seed in (0, 0, 1)]
    assert results[0][0].equal(results[1][0])
    assert not results[0][0].equal(results[2][0])


def test_one_node_per_thread_gives_the_same_run(name):
    plain, options = graph_for(name, 5), accepted(name)
    dropping = Dropout(plain, links=0.2, nodes=0.1, seed=0)
    graph = dropping if accepts(name, dropping) else plain
    task, algorithm = task_for(name, options), with_options(private(name), options)
    together, _ = run_steps(algorithm, task, Simulated(graph), ROUNDS)

    def host(network):
        hosted = task.host(network.nodes, Ledger())
        models, _ = run_steps(algorithm, hosted, network, ROUNDS)
        return models, list(hosted.ledger.releases())

    apart = run_on_threads(graph, host)
    assert torch.allclose(torch.cat([models for models, _ in apart]), together, atol=1e-9)
    for row, (_, releases) in enumerate(apart):
        for one, all_nodes in zip(releases, task.ledger.releases(), strict=True):
            assert one.multipliers.tolist() == [all_nodes.multipliers[row]]


def test_nothing_depends_on_the_records_except_through_releases(name):
    gossip = {"average": "gossip"} if name == "prisma" else {}  # the example has it, too
    config = {**settings(name, **accepted(name), **gossip), "sharding": {"name": "sizes", "ratio": 2}}
    found = check_escapes(Config.parse(config))
    assert found.escapes == ()
    if adds_noise(name):
        assert found.privacy.guaranteed is not None
        assert found.privacy.covers_models == (name not in PRIVATE_MODELS)


def test_closing_mixings_conserve_the_sum_and_reach_the_mean(name):
    if name in REFUSED["closing_rounds"]:
        pytest.skip(f"{name} refuses closing_rounds")
    algorithm = with_options(almost_noiseless(name, 2, lr=0.1), {"closing_rounds": 200})
    network, task = Simulated(graph_for(name, 6)), constant_task(shared=2 if keeps_parameters_local(name) else None)
    stepper = Stepper(algorithm)
    state = stepper.start(task, network.graph)
    spread = torch.from_numpy(np.random.default_rng(1).normal(size=(6, task.model.shared)))
    state = replace(state, **{algorithm.mixed[0]: spread, **({"x": spread} if "x" in vars(state) else {})})
    state = stepper.step(1, state, task, network, last=True)
    shared, _ = task.split(stepper.models(state))
    mixed = getattr(inner_state(state), algorithm.mixed[0])
    assert torch.allclose(mixed.sum(0), spread.sum(0), atol=1e-8)
    assert torch.allclose(shared, spread.mean(0).expand(6, -1), atol=1e-8)


def test_state_has_one_row_per_node(name):
    options = accepted(name)
    if not options:
        pytest.skip(f"{name} refuses all options")
    state = Stepper(with_options(private(name), options)).start(task_for(name, options), graph_for(name, 5))
    assert isinstance(state, OptionState)
    for key in ("velocity", "average", "weight"):
        assert len(getattr(state, key)) == 5


def test_no_bound_of_mixing_only_methods_applies(name):
    algorithm = private(name)
    for option in OPTIONS:
        if option != "weights" and algorithm.option_refusal(option) is None and algorithms.noise_parameters(name):
            assert with_options(algorithm, OPTIONS[option]).privacy.mixing_only_clip(0) is None


def test_config_keys_are_the_options():
    assert MixingKeys().model_dump() == asdict(MixingOptions())
    assert [field.name for field in fields(MixingOptions)] == list(MixingKeys.model_fields)


def test_a_class_that_declares_nothing_accepts_averages_only():
    refused = {option for option in OPTIONS if Algorithm.refused_options.get(option)}
    assert refused == {"closing_rounds", "mixings", "momentum", "weights"}
