"""One-shot ridge: the model against naive formulas, its noise with and without pairs, and what it refuses."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

import tacit
from tacit.algorithms import algorithms
from tacit.networks import Simulated
from tacit.privacy import Noise, epsilon_to_mu, mu_to_epsilon
from tacit.runs import Config, from_config, verify
from tacit.tasks import Dataset, Model, Target, Task
from tests.helpers import digits_task, quadratic_task

CONFIG = {
    "rounds": 1,
    "data": {"name": "digits", "normalise": "unit"},
    "graph": {"name": "ring", "nodes": 4},
    "algorithm": "one-shot-ridge",
    "privacy": {"epsilon": 2.0, "delta": 1e-3},
}


def built(**changes):
    return from_config(Config.parse(CONFIG | changes))


def observe(run):
    seen = {}
    run.task.on_release = lambda step, purpose, value, scale: seen.update({purpose: (value.clone(), scale)})
    run.go()
    return seen["ridge moments"]


def naive_model(released, records, deviation, d, classes, alpha=0.5, ridge=1.0, sharpness=10.0, bias=True):
    """The formulas of the docstring, entry by entry, from the sum of all released vectors."""
    total = released.numpy().sum(0) / records
    gram, place = np.zeros((d, d)), 0
    for i in range(d):
        for j in range(i, d):
            gram[i, j] = gram[j, i] = total[place] / (1 if i == j else math.sqrt(2))
            place += 1
    blocks = total[place:].reshape(classes, d + 1) / alpha
    sums, counts = blocks[:, :d], blocks[:, d]
    mean = sums.sum(0) if bias else np.zeros(d)
    values, vectors = np.linalg.eigh(gram - np.outer(mean, mean))
    inverse = vectors @ np.diag(1 / (np.maximum(values, 0) + ridge * deviation * math.sqrt(2 * d))) @ vectors.T
    weight = np.stack([(sums[c] - counts[c] * mean) @ inverse for c in range(classes)])
    return sharpness * weight, sharpness * np.array([counts[c] - weight[c] @ mean for c in range(classes)])


@pytest.mark.parametrize("noise", ["independent", "paired"])
@pytest.mark.parametrize("sharding", ["iid", {"name": "dirichlet", "alpha": 0.5, "min_records": 40}])
def test_the_model_is_that_of_the_formulas(noise, sharding):
    run = built(sharding=sharding, privacy=CONFIG["privacy"] | {"noise": noise})
    released, scale = observe(run)
    records = run.task.sizes.sum()
    weight, bias = naive_model(released, records, np.linalg.norm(scale) / records, 64, 10)
    found = run.task.model.layout.unflatten(run.models[0])
    np.testing.assert_allclose(found["0.weight"], weight, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["0.bias"], bias, rtol=1e-4, atol=1e-4)
    assert (run.models == run.models[0]).all()


def test_with_hardly_any_noise_it_is_ridge_regression_on_all_records():
    task = digits_task(nodes=5, normalise="unit", dtype=torch.float64)
    algorithm = algorithms.build("one-shot-ridge", {"noise_multiplier": 1e-4, "sharpness": 1.0}).bind(task)
    network = Simulated(tacit.graphs.graphs.build("ring", {"nodes": 5}))
    state = algorithm.round(0, algorithm.start(task, network.graph), task, network)
    found = task.model.layout.unflatten(algorithm.models(state)[0])
    penalty = math.sqrt(1.5) * 1e-4 * math.sqrt(5) * math.sqrt(128)  # λ N: sensitivity √(1 + 2 α²), five nodes
    x, labels = task.data.x.double().flatten(1).numpy(), np.eye(10)[task.data.y]
    rows = np.concatenate(task.shards)
    expected = Ridge(alpha=penalty, fit_intercept=True).fit(x[rows], labels[rows])
    scores = x @ found["0.weight"].numpy().T + found["0.bias"].numpy()
    np.testing.assert_allclose(scores, expected.predict(x), atol=0.05)
    accuracy = (scores.argmax(1) == task.data.y.numpy()).mean()
    assert accuracy > 0.9


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_target_is_met_by_one_release(relation):
    run = built(
        batch={
            "size": 16,
            "relation": relation,
            "sampling": "poisson" if relation == "add-remove" else "without-replacement",
        },
        rounds=3,
    )
    _, scale = observe(run)
    (release,) = run.task.ledger.releases()
    assert (release.step, release.purpose, release.sampling.kind) == (0, "ridge moments", "none")
    sensitivity = math.sqrt(1.5) if relation == "add-remove" else math.sqrt(3)
    assert scale.tolist() == pytest.approx([sensitivity * release.multipliers[0]] * 4)
    assert mu_to_epsilon(1 / release.multipliers[0], 1e-3) == pytest.approx(run.privacy.guaranteed)
    assert 0.98 * 2 < run.privacy.guaranteed <= 2
    assert run.privacy.covers_models


def test_paired_noise_is_smaller_in_the_sum_and_counts_against_colluders():
    run = built(privacy=CONFIG["privacy"] | {"noise": "paired", "colluders": 1})
    independent = built()
    run.go()
    curve = run.privacy.against_colluders
    assert curve[1] == pytest.approx(run.privacy.guaranteed)
    assert curve[0] < curve[1] <= 2 < curve[3]
    deviations = [each.algorithm.privacy.mean_deviation(4) for each in (run, independent)]
    assert deviations[0] < 0.75 * deviations[1]
    mu = epsilon_to_mu(2.0, 1e-3)
    assert deviations[1] == pytest.approx(math.sqrt(1.5) / mu / 2, rel=0.01)


def test_records_are_learned_at_a_moderate_epsilon():
    """Ten nodes with 2,000 records each, whose classes are far apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20_000)
    x = np.eye(3)[y] + 0.4 * rng.normal(size=(20_000, 3))
    data = Dataset.from_arrays(x / np.linalg.norm(x, axis=1, keepdims=True), y, labels=[0, 1, 2])
    run = tacit.train("logistic", data, algorithm="one-shot-ridge", nodes=10, rounds=1, epsilon=1.0, delta=1e-4)
    assert run.evaluations[-1]["accuracy"] > 0.9


def test_two_classes_may_have_one_output():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 4))
    y = (x[:, 0] > 0.3).astype(int)
    data = Dataset.from_arrays(x / np.linalg.norm(x, axis=1, keepdims=True), y, labels=[0, 1])
    how = {"algorithm": "one-shot-ridge", "nodes": 4, "rounds": 1, "epsilon": 8.0, "delta": 1e-4}
    one, two = (tacit.train("logistic", data, task=task, **how) for task in ("binary", "classification"))
    assert one.task.d == 5
    np.testing.assert_allclose(one.predict_proba(data.test_x), two.predict_proba(data.test_x), atol=1e-5)
    assert one.evaluations[-1]["accuracy"] > 0.85


def test_a_model_without_biases_is_not_centred():
    run = built(model={"name": "logistic", "biases": False})
    released, scale = observe(run)
    records = run.task.sizes.sum()
    weight, _ = naive_model(released, records, np.linalg.norm(scale) / records, 64, 10, bias=False)
    np.testing.assert_allclose(run.models[0].view(10, 64), weight, rtol=1e-4, atol=1e-4)


def test_runs_are_verified_and_can_be_centred_first(tmp_path):
    privacy = CONFIG["privacy"] | {"shares": {"mean": 0.1, "gradients": 0.9}}
    run = from_config(Config.parse(CONFIG | {"privacy": privacy}), out=tmp_path / "run").go()
    assert [each.purpose for each in run.task.ledger.releases()] == ["data mean", "ridge moments"]
    assert 0.98 * 2 < run.privacy.guaranteed <= 2
    assert verify(run.out).differences == ()
    assert tacit.load(run.out).predict(np.zeros((2, 64))).shape == (2,)


class Saturated(torch.nn.Module):
    """A module whose only parameters are those of a linear layer, and whose outputs are not linear."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, x):
        return torch.tanh(self.layer(x.flatten(1)))


@pytest.mark.parametrize("model", [{"name": "mlp"}, {"name": "cnn"}])
def test_other_models_are_refused(model):
    with pytest.raises(tacit.TacitError, match='computes a linear classifier: set model = "logistic"'):
        built(model=model)


def test_other_modules_tasks_and_settings_are_refused():
    words = "computes a linear classifier"
    with pytest.raises(tacit.TacitError, match=words):
        tacit.train(Saturated(), "digits", algorithm="one-shot-ridge", nodes=4, rounds=1, epsilon=2.0)
    algorithm = algorithms.build("one-shot-ridge", {"noise_multiplier": 1.0})
    with pytest.raises(tacit.TacitError, match=words):
        algorithm.bind(quadratic_task())
    number = Dataset.from_arrays(np.ones((40, 2)), np.ones(40), test=0.0, target=Target("number", range=(0, 2)))
    task = Task(Model(torch.nn.Linear(2, 1), tacit.tasks.Regression(number.target)), number, [np.arange(40)])
    with pytest.raises(tacit.TacitError, match=words):
        algorithm.bind(task)
    with pytest.raises(tacit.TacitError, match=r"no noise level: set privacy\.epsilon"):
        built(privacy={})
    for key in ("alpha", "ridge", "sharpness"):
        with pytest.raises(tacit.TacitError, match=f"{key} must be positive and finite, got 0"):
            algorithms.build("one-shot-ridge", {key: 0.0})


def test_only_noise_distinguishes_two_seeds():
    """The released sums are those of the records: their mean over many seeds is exact."""
    task = digits_task(nodes=2, normalise="unit")
    algorithm = algorithms.build("one-shot-ridge", {"noise_multiplier": 0.5}).bind(task)
    exact = task.statistic(algorithm.statistic)._value.clone()
    values = []
    for seed in range(40):
        other = digits_task(nodes=2, normalise="unit")
        other.noise = Noise.from_seed(seed)
        bounded = other.statistic(algorithm.statistic, 0, "ridge moments")
        values.append(algorithm.privacy.mechanism(other.nodes).release(bounded).clone())
    noise = torch.stack(values) - exact
    assert float(noise.std()) == pytest.approx(0.5 * math.sqrt(1.5), rel=0.01)
    assert float(noise.mean(0).abs().max()) < 0.6
