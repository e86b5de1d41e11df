"""Runs with noise that is correlated in time: calibrated, accounted, repeated exactly, and refused where unproven."""

import math
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import torch

import tacit
from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.privacy import BandedGaussian, declares, epsilon_to_mu
from tacit.runs import verify
from tacit.threats import analyse_threats
from tests.runs.cases import assert_same, interrupt_after, small
from tests.runs.secret_cases import secret

DELTA = 1e-4
TIME = {"epsilon": 2.0, "delta": DELTA, "correlation": "time"}
CYCLIC = {"size": 16, "sampling": "cyclic"}
RING = {"name": "ring", "nodes": 5}
CONST = {"name": "const-d2p", "lr": 0.5}
CORRELATED = {"algorithm": CONST, "batch": CYCLIC, "privacy": TIME, "rounds": 40}


def noise_of(run):
    """(rounds, n, d): the noise of every release, as the difference of the releases with and without records."""
    released, exact = [], []
    run.task.on_release = lambda step, purpose, value, scale: released.append(value.clone())
    real = run.task.gradient

    def gradient(*arguments, **keywords):
        bounded = real(*arguments, **keywords)
        exact.append(bounded._value.clone())
        return bounded

    run.task.gradient = gradient
    run.go()
    return (torch.stack(released) - torch.stack(exact)).double().numpy()


# Calibration and statement


@pytest.mark.parametrize("name", ["const-d2p", "dyn-d2p", "dp-sgd"])
def test_noise_is_calibrated_for_the_target(name):
    """Shards of different sizes have different numbers of batches per epoch, and different bandwidths."""
    sharding = {"name": "sizes", "ratio": 3}
    run = small(**{**CORRELATED, "algorithm": {"name": name}, "sharding": sharding}).go()
    assert 0.99 * 2.0 < run.privacy.guaranteed <= 2.0
    assert run.privacy.per_node.min() > 0.99 * 2.0, "every node has the noise that it needs"
    first = next(run.task.ledger.releases())
    assert isinstance(first.mechanism, BandedGaussian)
    batches = run.task.sizes // 16
    assert len(set(batches)) > 2
    assert first.mechanism.bandwidths(first.sampling).tolist() == batches.tolist()
    assert f"correlated in time, over up to {batches.max()} steps" in run.privacy.sentence()
    assert run.privacy.claimed is None, "the papers claim nothing about such noise"


def test_the_multiplier_is_that_of_independent_noise():
    """Of cyclic batches, correlated noise costs as much as independent noise with the same multiplier."""
    correlated, independent = small(**CORRELATED), small(**{**CORRELATED, "privacy": {**TIME, "correlation": "none"}})
    assert correlated.algorithm.scale.tolist() == independent.algorithm.scale.tolist()
    epochs = math.ceil(40 / (correlated.task.sizes.min() // 16))
    assert 1 / correlated.algorithm.scale.max() == pytest.approx(
        epsilon_to_mu(2.0, DELTA) / math.sqrt(epochs), rel=0.01
    )


def test_prefix_sums_of_the_noise_are_smaller():
    """4 epochs of 18 batches: the model has about 2.6 times less noise."""
    changes = {**CORRELATED, "rounds": 72, "graph": {"name": "complete", "nodes": 5}}
    correlated = noise_of(small(**changes))
    independent = noise_of(small(**{**changes, "privacy": {**TIME, "correlation": "none"}}))
    errors = [float(np.sqrt((np.cumsum(noise, axis=0) ** 2).mean())) for noise in (correlated, independent)]
    assert 2.3 < errors[1] / errors[0] < 2.9
    assert correlated[:18].std() > 1.2 * independent[:18].std(), "each release alone has more noise"


def test_a_bandwidth_limits_the_correlation():
    run = small(**{**CORRELATED, "privacy": {**TIME, "bandwidth": 3}})
    noise = noise_of(run)
    scaled = (noise / noise.std())[3:20].reshape(17, -1)
    correlations = np.corrcoef(scaled)
    assert np.diag(correlations, 1).mean() == pytest.approx(-0.36, abs=0.05)
    assert "over up to 3 steps" in run.privacy.sentence()


def test_no_mixing_bound_is_stated():
    analysis = analyse_threats(small(**CORRELATED), planned=True)
    assert analysis.pairs is None
    assert "no mixing bound is known for noise that is correlated in time" in analysis.bounds[1].reason
    assert len({bound.epsilon for bound in analysis.bounds}) == 1


# Exact repetition


@pytest.mark.parametrize("algorithm", [CONST, {"name": "dp-sgd", "lr": 0.5, "local_steps": 3}])
def test_a_run_resumes_exactly(tmp_path, algorithm):
    changes = {**CORRELATED, "algorithm": algorithm}
    whole = small(**changes).go()
    small(**changes, out=tmp_path / "run", observers=[interrupt_after(23)]).go()
    assert_same(small(**changes, out=tmp_path / "run", resume=True).go(), whole)


def test_a_run_that_is_interrupted_continues_exactly():
    run = small(**CORRELATED, observers=[interrupt_after(23)]).go()
    run.observers.clear()
    assert_same(run.go(), small(**CORRELATED).go())


def test_nodes_have_the_same_noise_in_a_process_of_their_own():
    run = small(**{**CORRELATED, "sharding": {"name": "sizes", "ratio": 3}})
    whole, seen = run.task, {}
    for rows in ([0, 1, 2, 3, 4], [3], [1, 4]):
        task = whole.host(rows)
        for t in range(25):
            value = task.gradient(task.initial(), t, run.algorithm.gradient_clip(t))
            released = run.algorithm.privacy.mechanism(t, task.nodes).release(value)
            for row, node in enumerate(rows):
                assert torch.equal(seen.setdefault((t, node), released[row].clone()), released[row])


def test_an_extended_run_begins_a_new_sequence(tmp_path):
    changes = {**CORRELATED, "privacy": {**TIME, "budget": 9.0}, "rounds": 30}
    small(**changes, out=tmp_path / "run").go()
    run = small(**changes, out=tmp_path / "run", resume=True, extend=25).go()
    assert run.t == 55
    releases = list(run.task.ledger.releases())
    assert {release.mechanism.steps for release in releases} == {30}
    batches = run.task.sizes.min() // 16
    mu = math.sqrt(math.ceil(55 / batches)) / releases[0].multipliers.min()
    assert epsilon_to_mu(run.privacy.guaranteed, DELTA) == pytest.approx(mu, rel=1e-6)


def test_a_new_key_begins_with_an_epoch(tmp_path):
    """The key of a run that has ended is erased. A new one has another order of the records and independent noise."""
    changes = {**CORRELATED, "batch": {**CYCLIC, "size": 41}, "sharding": "iid", "privacy": {**TIME, "budget": 9.0}}
    del changes["rounds"]
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert secret(**changes, out=whole, rounds=14).go().task.sampler.period.tolist() == [7] * 5
    run = secret(**changes, out=whole, rounds=14, resume=True, extend=7).go()
    multipliers = next(run.task.ledger.releases()).multipliers
    assert epsilon_to_mu(run.privacy.guaranteed, DELTA) == pytest.approx(math.sqrt(3) / multipliers.min(), rel=1e-6)
    secret(**changes, out=part, rounds=13).go()
    with pytest.raises(TacitError, match="ended within an epoch"):
        secret(**changes, out=part, rounds=13, resume=True, extend=7)


# Verification


def test_a_finished_run_is_verified(tmp_path):
    small(**CORRELATED, out=tmp_path / "run").go()
    found = verify(tmp_path / "run")
    assert found.differences == ()
    assert any("the releases are those that the config plans" in line for line in found.checked)


def test_another_bandwidth_in_the_ledger_is_a_difference(tmp_path):
    small(**CORRELATED, out=tmp_path / "run").go()
    with closing(sqlite3.connect(tmp_path / "run" / "ledger.sqlite")) as db:
        db.execute("""UPDATE release SET parameters = replace(parameters, '"inf"', '"7.0"')""")
        db.commit()
    assert any("other noise or other sampling than planned" in line for line in verify(tmp_path / "run").differences)


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": {"size": 16, "sampling": "permutation"}}, "A permutation is drawn anew"),
        ({"batch": {"size": 16, "sampling": "permutation", "epochs": 99}}, "A permutation is drawn anew"),
        ({"batch": {"size": 16}}, 'needs batch.sampling = "cyclic".*got "poisson"'),
        ({"batch": {"size": 16, "sampling": "without-replacement"}}, 'got "without-replacement"'),
        ({"batch": {"size": None}}, "has no effect if a record can change every step"),
        ({"batch": {**CYCLIC, "relation": "add-remove"}}, 'relation "replace-one" only'),
        ({"algorithm": {"name": "porter"}, "graph": RING}, "PORTER-DP is not one of them"),
        ({"algorithm": {"name": "dp-norm", "smoothness": 1.0}, "graph": RING}, "is not one of them"),
        ({"algorithm": {"name": "sgp"}, "privacy": {"correlation": "time"}}, "SGP adds no Gaussian noise"),
        ({"privacy": {**TIME, "calibration": "paper"}}, "has no formula of a paper"),
        ({"privacy": {"epsilon": 2.0, "bandwidth": 4}}, "has an effect only with"),
        ({"privacy": {**TIME, "bandwidth": 1}}, "bandwidth"),
        ({"privacy": {**TIME, "correlation": "space"}}, "correlation"),
    ],
)
def test_what_is_not_proven_is_refused(changes, message):
    with pytest.raises(TacitError, match=message):
        small(**{**CORRELATED, **changes})


def test_exact_local_parameters_are_refused():
    """They depend on the records of earlier draws, so a record changes every later step."""
    algorithm = {**CONST, "share": ["0.weight"], "local": "exact"}
    with pytest.raises(TacitError, match="exact local parameters"):
        small(**{**CORRELATED, "algorithm": algorithm})


def test_a_subclass_does_not_inherit_the_declaration():
    const = algorithms.build("const-d2p", {"noise_multiplier": 2.0})
    assert declares(const, "sums_gradients")
    child = type("Child", (type(const),), {})
    assert not declares(object.__new__(child), "sums_gradients")


def test_python_arguments():
    run = tacit.train(algorithm="const-d2p", rounds=6, epsilon=2.0, sampling="cyclic", correlation="time", bandwidth=2)
    assert "correlated in time, over up to 2 steps" in run.privacy.sentence()
