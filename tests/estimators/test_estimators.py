"""Fit and predict as users of scikit-learn do it: sites, pipelines, searches, copies."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

import tacit
from tacit import TacitClassifier, TacitError, TacitRegressor
from tacit.algorithms import algorithms

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(240, 3))
Y = np.where(X[:, 0] > 0, "ill", "healthy")
SITE = np.array(["north", "south", "west"])[np.arange(240) % 3]
QUICK = {"rounds": 20, "lr": 2.0, "epsilon": 4.0, "random_state": 0}
DECLARED = {**QUICK, "classes": ["ill", "healthy"]}


def classifier(**changes):
    return TacitClassifier(**DECLARED | changes)


def refused(words):
    return pytest.raises(TacitError, match=words)


def test_one_node_per_group():
    groups = np.where(np.arange(240) < 40, "b", SITE)
    fitted = classifier().fit(X, Y, groups=groups)
    assert fitted.groups_.tolist() == ["b", "north", "south", "west"]
    assert [sorted(rows) for rows in fitted.run_.task.shards] == [
        np.flatnonzero(groups == each).tolist() for each in fitted.groups_
    ]
    assert len(fitted.run_.task.data.y) == len(Y)
    assert len(fitted.run_.task.data.test_y) == 0
    assert fitted.score(X, Y) > 0.9


def test_rows_without_groups_are_divided_by_their_number_alone():
    one, other = (classifier(nodes=4).fit(x, Y).run_.task.shards for x in (X, X[::-1]))
    assert [len(rows) for rows in one] == [60] * 4
    assert all(map(np.array_equal, one, other))


def test_batches_are_at_most_as_large_as_the_smallest_node():
    groups = np.where(np.arange(240) < 7, "small", "large")
    assert classifier().fit(X, Y, groups=groups).run_.task.sampler.batch.tolist() == [7.0, 7.0]
    assert classifier(batch=None).fit(X, Y).privacy_.guaranteed <= 4.0


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (SITE[:, None], "shape"),
        ([np.nan] * 240, "missing"),
        ([None, "a"] * 120, "numbers or text"),
        ([1, 2], "groups must have one value per row: X has 240 rows, groups 2"),
    ],
)
def test_groups_that_are_no_sites_are_refused(groups, words):
    with refused(words):
        classifier().fit(X, Y, groups=groups)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Linear, r"model is the class Linear: pass an instance, Linear\(...\)"),
        (lambda features: features, "given as model must accept inputs= and classes="),
    ],
)
def test_a_function_that_makes_no_model_is_refused(model, words):
    with refused(words):
        classifier(model=model).fit(X, Y)


def test_text_labels_and_sorted_classes():
    fitted = classifier().fit(X, Y)
    assert fitted.classes_.tolist() == ["healthy", "ill"]
    assert set(fitted.predict(X)) == {"healthy", "ill"}
    probabilities = fitted.predict_proba(X)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-6)
    assert np.array_equal(fitted.predict(X) == "ill", probabilities[:, 1] > 0.5)


def test_a_label_that_is_not_declared_is_refused_without_naming_it():
    with refused("row 3 of y") as error:
        classifier().fit(X, np.where(np.arange(240) == 3, "secret", Y))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("x", "words"), [([["Smith", 1.0]] * 240, "not a number"), (X[:, 0], "Reshape your data")])
def test_errors_contain_no_cell(x, words):
    with pytest.raises(ValueError, match=words) as error:
        classifier().fit(x, Y)
    assert "Smith" not in str(error.value)
    assert str(X[0, 0])[:6] not in str(error.value)


def test_features_are_mapped_from_their_public_range():
    far = X * [10, 1, 1] + [50, 0, 0]
    fitted = classifier(feature_range=([40, -1, -1], [60, 1, 1])).fit(far, Y)
    assert np.allclose(fitted.run_.task.data.x, X, atol=1e-5)
    beyond = far + np.array([1000, 0, 0])
    clamped = np.column_stack([np.full(240, 60.0), X[:, 1:]])
    assert np.array_equal(fitted.predict_proba(beyond), fitted.predict_proba(clamped))
    with refused("low < high"):
        classifier(feature_range=(1, -1)).fit(X, Y)
    with refused("two lists of 3 numbers"):
        classifier(feature_range=([0, 0], [1, 1])).fit(X, Y)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
        nn.Linear(3, 1),
        lambda inputs, classes: nn.Linear(inputs[0], classes),
        {"name": "mlp", "hidden": (4,)},
    ],
    ids=["module", "one output", "function", "dict"],
)
def test_models(model):
    before = [p.clone() for p in model.parameters()] if isinstance(model, nn.Module) else []
    fitted = classifier(model=model).fit(X, Y)
    assert fitted.score(X, Y) > 0.8
    assert fitted.predict_proba(X).shape == (240, 2)
    after = [*model.parameters()] if isinstance(model, nn.Module) else []
    assert all(map(lambda a, b: a.equal(b), before, after))


def test_hyperparameters():
    fitted = classifier(algorithm="dyn-d2p", clip=0.5, hyperparameters={"rho_c": 3.0}).fit(X, Y)
    assert {key: fitted.run_.config["algorithm"][key] for key in ("lr", "clip", "rho_c")} == {
        "lr": 2.0,
        "clip": 0.5,
        "rho_c": 3.0,
    }
    with refused("lr is set twice"):
        classifier(hyperparameters={"lr": 1.0}).fit(X, Y)
    with refused("share is not accepted"):
        classifier(hyperparameters={"share": ["0.*"]}).fit(X, Y)
    given = algorithms.build("const-d2p", {"noise_multiplier": 3.0})
    with refused("remove lr"):
        classifier(algorithm=given, epsilon=None).fit(X, Y)
    assert classifier(algorithm=given, epsilon=None, lr=None).fit(X, Y).privacy_.guaranteed > 0


def test_same_numbers_as_train():
    data = tacit.Dataset.from_arrays(X, Y, test=(X[:0], Y[:0]), labels=["healthy", "ill"])
    run = tacit.train("logistic", data, algorithm="const-d2p", nodes=3, rounds=20, epsilon=4.0, sharding="iid")
    assert classifier(lr=None, nodes=3).fit(X, Y).run_.models.equal(run.models)


def test_pipeline_with_groups_and_a_search_in_it():
    pipeline = make_pipeline(FunctionTransformer(np.tanh), classifier())
    pipeline.fit(X, Y, tacitclassifier__groups=SITE)
    assert pipeline[-1].groups_.tolist() == ["north", "south", "west"]
    search = GridSearchCV(pipeline, {"tacitclassifier__clip": np.array([0.5, 1.0])}, cv=2)
    search.fit(X, Y, tacitclassifier__groups=SITE)
    assert search.best_estimator_[-1].run_.task.n == 3
    assert search.best_score_ > 0.8


def test_groups_by_metadata_routing():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(classifier().set_fit_request(groups=True), {"lr": [2.0]}, cv=GroupKFold(3))
        search.fit(X, Y, groups=SITE)
    assert search.best_estimator_.groups_.tolist() == ["north", "south", "west"]
    assert search.score(X, Y) > 0.8


def test_cross_validation_and_clone():
    assert cross_val_score(classifier(), X, Y, cv=2).mean() > 0.8
    model = nn.Linear(3, 2)
    copy = clone(classifier(model=model))
    assert copy.get_params().keys() == TacitClassifier().get_params().keys()
    assert copy.model is not model
    assert copy.fit(X, Y).predict(X).tolist() == classifier(model=model).fit(X, Y).predict(X).tolist()


def test_feature_names():
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    fitted = classifier().fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == ["age", "dose", "weight"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["dose", "age", "weight"]])


def test_pickle_keeps_model_and_statement():
    fitted = classifier().fit(X, Y, groups=SITE)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    assert copy.privacy_ == fitted.privacy_
    assert not hasattr(copy, "run_")
    assert copy.fit(X, Y, groups=SITE).run_.t == fitted.n_iter_ == 20


def test_regressor():
    y = 30 + 20 * X[:, 0]
    fitted = TacitRegressor(**QUICK | {"lr": 0.5}, target_range=(10, 50)).fit(X, y, groups=SITE)
    assert fitted.score(X, y) > 0.7
    assert fitted.predict(X * 100).min() >= 10
    assert fitted.predict(X * 100).max() <= 50
    for wrong in [(1,), "ab", 3]:
        with refused("two numbers"):
            TacitRegressor(target_range=wrong).fit(X, y)
    with refused("low < high"):
        TacitRegressor(target_range=(5, 5)).fit(X, y)


def test_classes_are_at_least_two_different_values():
    for wrong in [[1], [1, 1], [[1, 2]]]:
        with refused("at least 2 different values"):
            classifier(classes=wrong).fit(X, Y)


def test_importing_tacit_does_not_import_scikit_learn():
    code = "import sys, tacit; assert 'TacitClassifier' in dir(tacit); print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
