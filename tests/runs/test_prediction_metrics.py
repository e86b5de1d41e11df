"""Metrics of predictions: each number equals that of scikit-learn, and only meaningful ones are measured."""

import numpy as np
import pytest
import torch
from sklearn import calibration
from sklearn import metrics as sk

from tacit.runs.metrics import metric, prediction_metric, prediction_metrics
from tacit.runs.metrics.utility import trivial_scores
from tacit.tasks import Predictions, Target, heads
from tests.runs.trained import TARGETS, trained

RNG = np.random.default_rng(0)


def scores(name, logits, y):
    """Every metric of a head on given outputs and targets, by name."""
    head = heads.build(name, {"target": TARGETS[name]})
    outputs, targets = torch.from_numpy(logits).double(), torch.from_numpy(y)
    found = Predictions(head, float(head.record_loss(outputs, targets).mean()), head.predict(outputs), targets)
    tested = prediction_metric.TestedModel.of(found)
    return {each.name: each.value(tested) for each in prediction_metrics(head) if each.name != "loss"}, tested


def calibration_of(truth, p):
    """The weighted mean distance of the calibration curve of scikit-learn."""
    shares, means = calibration.calibration_curve(truth, p, n_bins=10, strategy="uniform")
    counts = np.histogram(p, np.linspace(0, 1, 11))[0]
    return float((np.abs(shares - means) * counts[counts > 0]).sum() / len(p))


def test_two_classes_equal_scikit_learn():
    y = RNG.integers(0, 2, 300)
    found, tested = scores("binary", RNG.normal(size=(300, 1)) + 0.8 * y[:, None], y)
    p, decided = tested.scores[:, 1], (tested.scores[:, 1] > 0.5).astype(int)
    assert found == pytest.approx(
        {
            "accuracy": sk.accuracy_score(y, decided),
            "balanced_accuracy": sk.balanced_accuracy_score(y, decided),
            "roc_auc": sk.roc_auc_score(y, p),
            "average_precision": sk.average_precision_score(y, p),
            "f1": sk.f1_score(y, decided),
            "log_loss": sk.log_loss(y, p),
            "brier_score": sk.brier_score_loss(y, p),
            "calibration_error": calibration_of(y, p),
        },
        rel=1e-9,
    )


def test_three_classes_equal_scikit_learn():
    y = RNG.integers(0, 3, 300)
    logits = RNG.normal(size=(300, 3)) + 1.2 * np.eye(3)[y]
    found, tested = scores("classification", logits, y)
    p, decided, one_hot = tested.scores, tested.scores.argmax(1), np.eye(3)[y]
    assert found == pytest.approx(
        {
            "accuracy": sk.accuracy_score(y, decided),
            "balanced_accuracy": sk.balanced_accuracy_score(y, decided),
            "roc_auc": sk.roc_auc_score(y, p, multi_class="ovr"),
            "average_precision": sk.average_precision_score(one_hot, p),
            "f1": sk.f1_score(y, decided, average="macro"),
            "log_loss": sk.log_loss(y, p),
            "brier_score": np.square(p - one_hot).sum(1).mean(),
            "calibration_error": np.mean([calibration_of(one_hot[:, k], p[:, k]) for k in range(3)]),
        },
        rel=1e-9,
    )


def test_several_labels_equal_scikit_learn():
    y = RNG.integers(0, 2, (300, 2)).astype(np.float32)
    found, tested = scores("multi-label", RNG.normal(size=(300, 2)) + y, y)
    p, decided = tested.scores, (tested.scores > 0.5).astype(int)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, decided))
    assert found["roc_auc"] == pytest.approx(sk.roc_auc_score(y, p))
    assert found["f1"] == pytest.approx(sk.f1_score(y, decided, average="macro"))
    assert found["log_loss"] == pytest.approx(np.mean([sk.log_loss(y[:, k], p[:, k]) for k in range(2)]))
    assert "balanced_accuracy" not in found


@pytest.mark.parametrize("name", ["regression", "counts"])
def test_values_equal_scikit_learn_in_the_unit_of_the_records(name):
    target = TARGETS[name]
    values = RNG.poisson(6.0, 300).astype(float)
    y = target.encode(torch.from_numpy(values)).numpy()
    logits = 0.3 * RNG.normal(size=(300, 1)) + (0.0 if name == "regression" else np.log(values[:, None] + 1))
    found, tested = scores(name, logits, y)
    expected = {
        "rmse": sk.root_mean_squared_error(values, tested.decided),
        "mae": sk.mean_absolute_error(values, tested.decided),
        "r2": sk.r2_score(values, tested.decided),
    }
    if name == "counts":
        expected["poisson_deviance"] = sk.mean_poisson_deviance(values, tested.decided)
    assert found == pytest.approx(expected, rel=1e-5)
    assert "accuracy" not in found


def test_a_metric_over_classes_is_not_defined_if_a_class_is_missing():
    found, _ = scores("classification", RNG.normal(size=(20, 3)), np.zeros(20, np.int64))
    assert found["roc_auc"] is None
    assert found["balanced_accuracy"] is None
    assert found["accuracy"] is not None


def test_the_trivial_predictor_is_the_majority_class_or_the_middle_of_the_public_range():
    y = torch.tensor([0] * 88 + [1] * 12)
    trivial = trivial_scores(heads.build("binary", {"target": TARGETS["binary"]}), y)
    assert (trivial["accuracy"], trivial["roc_auc"], trivial["balanced_accuracy"]) == (0.88, 0.5, 0.5)
    assert trivial["calibration_error"] == pytest.approx(0, abs=1e-12)
    target = Target("number", range=(0.0, 60.0))
    values = torch.tensor([10.0, 20.0])
    trivial = trivial_scores(heads.build("regression", {"target": target}), target.encode(values))
    assert trivial["mae"] == pytest.approx(15.0, rel=1e-6)
    assert trivial["rmse"] == pytest.approx(np.sqrt((20**2 + 10**2) / 2), rel=1e-6)


@pytest.mark.parametrize("name", list(TARGETS))
def test_results_have_every_metric_of_the_task_beside_the_trivial_predictor(name):
    result = trained(name).result()
    assert result["task"] == name
    assert set(result["metrics"]) == set(result["trivial"])
    classifies = name in ("classification", "binary", "multi-label")
    assert ("accuracy" in result["metrics"]) == classifies
    assert ("rmse" in result["metrics"]) == (not classifies)
    assert (result["confusion"] is not None) == (name in ("classification", "binary"))
    assert all(metric(key).title for key in result["metrics"])
