"""A run with a guarantee needs declared classes, and test records that no other record decides about."""

import numpy as np
import pytest
from torch import nn

import tacit
from tacit.networks import Simulated
from tacit.runs import Batch, Config, Run, batch_relation, build_data, from_config
from tests.runs.cases import small

X = np.random.default_rng(0).normal(size=(300, 3))
Y = (X[:, 0] > 0).astype(int)
PRIVATE = {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 1.5}
SGP = {"name": "sgp"}
REPLACE = {"size": 16, "sampling": "without-replacement"}


@pytest.fixture(params=["csv", "npz"])
def file(request, tmp_path):
    path = tmp_path / f"records.{request.param}"
    if request.param == "npz":
        np.savez(path, x=X, y=Y)
    else:
        np.savetxt(path, np.column_stack([X, Y]), delimiter=",")
    return {"name": request.param, "path": str(path)}


def refused(words):
    return pytest.raises(tacit.TacitError, match=words)


def test_a_private_run_needs_declared_classes(file, tmp_path):
    words = r"data set records: the classes were learnt .*: declare them with labels=\[...\]"
    with refused(words):
        small(data=file, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run = small(data={**file, "labels": [0, 1]}).go()
    assert run.privacy.guaranteed > 0
    assert small(data=file, algorithm=SGP).go().privacy.guaranteed is None


def test_arrays_without_declared_classes_train_without_noise_only():
    given = {"graph": "ring", "nodes": 4, "rounds": 3, "batch": 8}
    with refused(r"declare them with labels=\[...\]$"):
        tacit.train("logistic", (X, Y), algorithm="dp-sgd", epsilon=2.0, delta=1e-3, **given)
    assert tacit.train("logistic", (X, Y), algorithm="sgp", **given).t == 3


@pytest.mark.parametrize(
    ("batch", "split"),
    [
        ({"size": 16}, "content"),
        ({"size": 16, "relation": "replace-one"}, "index"),
        ({"size": 16, "sampling": "without-replacement"}, "index"),
        ({"size": 16, "sampling": "permutation"}, "index"),
        ({"size": "all"}, "content"),
        ({"size": "all", "sampling": "permutation"}, "content"),  # all records are in every batch
        ({"size": "all", "relation": "replace-one"}, "index"),
    ],
)
def test_files_and_arrays_are_split_as_the_relation_needs(file, batch, split):
    parsed = Batch.model_validate(batch)
    run = small(data={**file, "labels": [0, 1]}, batch=batch)
    assert run.task.data.split == split
    assert run.task.sampling.relation == batch_relation(parsed)
    assert build_data(Config.parse({"data": {**file, "split": "index"}}).data, "add-remove").split == "index"
    given = {"sampling": parsed.sampling, "relation": parsed.relation, "batch": parsed.size}
    trained = tacit.train("logistic", (X, Y), algorithm="sgp", graph="ring", nodes=4, rounds=1, **given)
    assert trained.task.data.split == split


def test_a_split_that_does_not_fit_is_refused(file):
    data = {**file, "labels": [0, 1]}
    words = 'split = "{}" does not fit the relation "{}".*: set split = "{}", or give test records'
    with refused(words.format("index", "add-remove", "content")):
        small(data={**data, "split": "index"})
    with refused(words.format("content", "replace-one", "index")):
        small(data={**data, "split": "content"}, batch=REPLACE)
    with refused(words.format("content", "replace-one", "index")):
        declared = tacit.Dataset.from_arrays(X, Y, labels=[0, 1])
        tacit.train("logistic", declared, graph="ring", batch=8, epsilon=2.0, delta=1e-3, relation="replace-one")
    assert small(data={**data, "split": "index"}, algorithm=SGP).go().t == 12


@pytest.mark.parametrize("batch", [{"size": 16}, REPLACE])
def test_given_test_records_fit_every_relation(tmp_path, batch):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, x_test=X[:20], y_test=Y[:20])
    run = small(data={"name": "npz", "path": str(tmp_path / "mine.npz"), "labels": [0, 1]}, batch=batch).go()
    assert run.privacy.guaranteed > 0


def test_a_run_built_by_hand_is_checked_too():
    good = small(data={"name": "digits"})
    data = tacit.Dataset.from_arrays(X, Y)
    task = tacit.Task(tacit.Model(nn.Linear(3, 2)), data, np.split(np.arange(200), 5), batch=16)
    with refused("the classes were learnt"):
        Run(task, good.algorithm, Simulated(good.network.graph))


class Unplanned(tacit.Algorithm):
    """Plans no releases, but makes them, so that the ledger states a guarantee at the end."""

    title = "Unplanned"

    def start(self, task, graph):
        return task.initial()

    def round(self, t, state, task, network):
        return state - tacit.Gaussian(2.0).release(task.gradient(state, t, tacit.Clip(1.0)))

    def models(self, state):
        return state


def test_an_algorithm_without_a_plan_could_state_a_guarantee():
    given = {"graph": "ring", "nodes": 4, "rounds": 2, "batch": 8, "algorithm": Unplanned()}
    with refused("the classes were learnt"):
        tacit.train("logistic", (X, Y), **given)
    declared = tacit.train("logistic", tacit.Dataset.from_arrays(X, Y, labels=[0, 1]), **given)
    assert declared.privacy.guaranteed > 0


@pytest.mark.parametrize("share", [None, ["*weight"]])
def test_a_run_without_test_records_measures_nothing(file, tmp_path, share):
    data, algorithm = {**file, "labels": [0, 1], "test": 0.0}, PRIVATE if share is None else {**PRIVATE, "share": share}
    given = {"out": tmp_path / "run", "measure": ["node_accuracy"], "observers": [tacit.reports.ReportPage()]}
    run = small(data=data, algorithm=algorithm, **given).go()
    assert (run.t, run.stopped, len(run.task.data.test_y)) == (12, None, 0)
    assert {run.evaluations[-1][key] for key in ("accuracy", "loss", "node_accuracy")} == {None}
    assert run.privacy.guaranteed > 0
    assert (tmp_path / "run/report.html").is_file()


def test_one_record_of_a_rare_class_changes_no_refusal_and_no_shape(tmp_path):
    """A class with one record, which is in the training set, in the test set or missing, makes no difference."""
    shapes = set()
    for position in (None, *range(6)):
        y = np.zeros(300, int)
        if position is not None:
            y[position] = 2
        np.savez(tmp_path / "mine.npz", x=X, y=y)
        data = {"name": "npz", "path": str(tmp_path / "mine.npz"), "labels": [0, 1, 2]}
        run = from_config(Config.parse({"data": data, "algorithm": PRIVATE, "rounds": 1, "batch": REPLACE}))
        shapes.add((tuple(run.go().models.shape), len(run.task.data.y)))
    assert len(shapes) == 1
