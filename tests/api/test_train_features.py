"""Features as arguments of `tacit.train`."""

import numpy as np
import pytest
import torch
from torch import nn

import tacit
from tacit.runs import Config, from_config
from tacit.tasks import Dataset, datasets, with_features
from tests.api.cases import quick, records

RAW, LABELS = datasets.build("digits").raw[0].numpy()[:240], datasets.build("digits").y.numpy()[:240]
PICTURES = {"model": "logistic", "labels": list(range(10))}
X, Y = records()
OWN = {"data": (X, Y), "labels": [0, 1], "model": "logistic"}


def doubled(record: torch.Tensor) -> torch.Tensor:
    return torch.cat([record.flatten(), record.flatten() ** 2])


def test_named_data_have_the_features_of_the_config():
    run = quick("logistic", "digits", features=["gradients"], whiten="shapes", rank=20)
    table = {**run.config, "data": {"name": "digits", "features": ["gradients"], "whiten": "shapes", "rank": 20}}
    assert torch.equal(run.models, from_config(Config.parse(table)).go().models)
    assert run.task.data.inputs == (20,)


def test_own_records_have_features_and_are_predicted_raw():
    run = quick(data=(RAW, LABELS), features=["gradients", "pixels"], whiten="shapes", rank=25, **PICTURES)
    data = run.task.data
    assert (data.inputs, tuple(data.raw[0].shape[1:])) == ((25,), (1, 8, 8))
    assert np.mean(run.predict(data.raw[1]) == data.test_y.numpy()) == pytest.approx(run.result()["accuracy"])
    assert run.result()["features"]["names"] == ["gradients", "pixels"]


def test_one_entry_of_data_per_node_has_features():
    whole, halves = {**PICTURES, "features": ["gradients"]}, [(RAW[:120], LABELS[:120]), (RAW[120:], LABELS[120:])]
    run = quick(data=halves, graph="complete", **whole)
    assert run.task.data.features is not None
    assert len(run.task.data.raw[0]) == len(run.task.data.y)


@pytest.mark.parametrize("feature", [doubled, nn.Linear(3, 6), "square.py:square"])
def test_functions_files_and_modules(feature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "square.py").write_text("def square(record):\n    return record.flatten().repeat(2) ** 2\n")
    run = quick(**OWN, features=[feature, "pixels"])
    assert run.task.data.inputs == (9,)
    assert "Tacit cannot check this" in run.result()["features"]["sentence"]
    torch.testing.assert_close(run.task.data.x.norm(dim=1), torch.ones(len(run.task.data.x)))
    assert len(run.predict(X[:5])) == 5


def test_the_recipe_leaves_the_given_features():
    run = tacit.train("logistic", "digits", algorithm="auto", features=["pixels"], nodes=4, epsilon=3.0, rounds=3)
    assert run.result()["features"]["names"] == ["pixels"]


def test_a_run_is_resumed_with_the_same_function_only(tmp_path):
    settings = {**OWN, "out": tmp_path / "run", "noise_multiplier": 1.0, "algorithm": "const-d2p"}

    def stop(run, row):
        if run.t == 1:
            raise KeyboardInterrupt

    quick(**settings, features=[doubled], evaluate_every=1, observers=[stop])
    with pytest.raises(tacit.TacitError, match=r"given as Python objects: .*tacit.train\(..., features="):
        quick(**settings, features=["python: doubled"], evaluate_every=1, resume=True)

    other = lambda record: record.flatten().repeat(2)  # noqa: E731
    other.__name__ = "doubled"
    with pytest.raises(tacit.TacitError, match="cannot be resumed: the features differ"):
        quick(**settings, features=[other], evaluate_every=1, resume=True)
    resumed = quick(**settings, features=[doubled], evaluate_every=1, resume=True)
    whole = quick(**{**settings, "out": None}, features=[doubled], evaluate_every=1)
    assert torch.equal(resumed.models, whole.models)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"features": "gradients"}, r"features must be a list, got str: write features=\[...\]"),
        ({"features": doubled}, "features must be a list, got function"),
        ({"features": [3]}, "a feature must be a name, .* got int"),
        ({"features": [nn.Flatten]}, r"a feature is the class Flatten: pass an instance, Flatten\(...\)"),
        ({"features": []}, "features"),
        ({"features": ["gradient"]}, 'did you mean "gradients"'),
        ({"features": ["gradients"]}, "needs pictures"),
        ({"features": ["pixels"], "rank": 2}, 'rank = 2 has an effect only with whitening: set whiten = "shapes"'),
        ({"features": [lambda record: 1 / 0]}, "fails on random records"),
        ({"whiten": "shapes"}, "whiten and rank have an effect only with features="),
        ({"rank": 3}, "whiten and rank have an effect only with features="),
    ],
)
def test_mistakes(given, words):
    with pytest.raises(tacit.TacitError, match=words) as refusal:
        quick(**OWN, **given)
    assert "data." not in str(refusal.value)


def test_features_are_applied_once():
    data = with_features(Dataset.from_arrays(X, Y, labels=[0, 1]), ["pixels"])
    with pytest.raises(tacit.TacitError, match=r"has features already \(pixels; 3 values\): remove features="):
        quick("logistic", data, features=["pixels"])
    with pytest.raises(tacit.TacitError, match="has features: give the data sets without features"):
        quick("logistic", data=[data, data], graph="complete")
