"""Data as PyTorch and scikit-learn users have them."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Subset, TensorDataset

import tacit
from tests.api.cases import quick, records

X, Y = records()
NAMES = np.array(["well", "ill"])


class Patients(TorchDataset):
    """Items as a user's own data set returns them."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.tensor(self.x[i], requires_grad=True), self.y[i]


class Tokens(Patients):
    def __getitem__(self, i):
        return self.x[i], self.y[i]


def frame(**more):
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], **more})


FORMS = {
    "arrays": (X, Y),
    "lists": (X.tolist(), Y.tolist()),
    "tensors": (torch.tensor(X), torch.tensor(Y)),
    "frame and series": (frame(), pd.Series(Y)),
    "tensor data set": TensorDataset(torch.tensor(X), torch.tensor(Y)),
    "own data set": Patients(X, Y.tolist()),
    "subset": Subset(TensorDataset(torch.tensor(X), torch.tensor(Y)), range(len(Y))),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_run(form):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    run = quick(model, FORMS[form], labels=[0, 1])
    expected = quick(model, tacit.Dataset.from_arrays(X, Y, labels=[0, 1]))
    assert torch.equal(run.models, expected.models)
    assert run.privacy.guaranteed == expected.privacy.guaranteed > 0


def test_frame_with_a_target_column():
    table = frame(state=NAMES[Y])
    run = quick(data=table, target="state", labels=["well", "ill"])
    assert torch.equal(run.models, quick(data=(X, NAMES[Y]), labels=["well", "ill"]).models)
    assert set(run.predict(X[:9])) <= {"well", "ill"}


def test_text_labels_of_a_data_set_and_of_a_series():
    by_items = quick(data=Patients(X, NAMES[Y].tolist()), labels=["well", "ill"])
    by_series = quick(data=(X, pd.Series(NAMES[Y], dtype=object)), labels=["well", "ill"])
    assert torch.equal(by_items.models, by_series.models)


def test_frame_with_a_number_as_target():
    target = tacit.Target("number", range=(-4, 8), name="c")
    run = quick(data=frame(), target=target)
    assert run.task.data.inputs == (2,)
    assert "rmse" in run.utility.metrics


@pytest.mark.parametrize("form", ["arrays", "tensor data set", "own data set"])
def test_given_test_records_are_the_test_set(form):
    test_x, test_y = records(30, seed=1)
    tests = {
        "arrays": (test_x, test_y),
        "tensor data set": TensorDataset(torch.tensor(test_x), torch.tensor(test_y)),
        "own data set": tacit.Dataset.from_arrays(test_x, test_y, labels=[0, 1], test=0.0),
    }
    data = quick(data=FORMS[form], labels=[0, 1], test=tests[form]).task.data
    assert (len(data.y), len(data.test_y), data.split) == (120, 30, None)
    np.testing.assert_allclose(data.test_x.numpy(), test_x.astype(np.float32))
    assert data.test_y.tolist() == test_y.tolist()


def test_the_columns_of_a_test_frame_are_found_by_name():
    table = frame(state=NAMES[Y])
    run = quick(data=table, target="state", labels=["well", "ill"], test=table[["state", "c", "b", "a"]].head(20))
    np.testing.assert_allclose(run.task.data.test_x.numpy(), X[:20].astype(np.float32))


def test_share_of_test_records():
    assert len(quick(data=(X, Y), labels=[0, 1], test=0.0).task.data.test_y) == 0
    assert len(quick(data=(X, Y), labels=[0, 1], test=0.5).task.data.test_y) > 40


def test_learnt_classes_have_no_guarantee():
    with pytest.raises(tacit.TacitError, match=r"learnt from the records.*: declare them with labels=\[...\]$"):
        quick(data=(X, Y))
    assert quick(data=(X, Y), algorithm="sgp").privacy.guaranteed is None


def test_integers_are_passed_on_as_integers(monkeypatch):
    seen = []
    real = tacit.Dataset.from_arrays.__func__

    def spy(cls, x, y, *args, **kwargs):
        seen.append(np.asarray(x).dtype.kind)
        return real(cls, x, y, *args, **kwargs)

    monkeypatch.setattr(tacit.Dataset, "from_arrays", classmethod(spy))
    tokens = np.arange(360).reshape(120, 3) % 7
    items = Tokens(tokens, Y.tolist())
    table = pd.DataFrame(tokens, columns=["a", "b", "c"]).assign(y=Y)
    half = [(tokens[:60], Y[:60]), (tokens[60:], Y[60:])]
    for data, more in (((tokens, Y), {}), (items, {}), (table, {"target": "y"}), (half, {})):
        quick(data=data, labels=[0, 1], **more)
    assert seen == ["i"] * 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"data": frame(sex=["f"] * 120, y=Y), "target": "y"},
            'column "sex" of data is not numeric .*Dataset.from_frame',
        ),
        ({"data": frame(y=Y)}, 'data is a data frame: name the column of its labels, target="COLUMN"'),
        ({"data": frame(state=Y), "target": "sate"}, 'unknown column of data "sate"; did you mean "state"\\?'),
        ({"data": (X, Y), "target": "y"}, 'target="y" names a column of a data frame, but data is a tuple'),
        ({"data": (X, Y), "target": 3}, "target must be the name of a column or a tacit.Target, got int"),
        ({"data": (X, pd.Series(["a", None] * 60, dtype=object))}, "must all be text or all be numbers"),
        ({"data": tacit.Dataset.from_arrays(X, Y, labels=[0, 1])}, "a Dataset has its own classes: remove labels="),
        ({"data": "digits"}, 'labels= is for your own records; the data set "digits" is declared completely'),
        ({"data": (X, Y), "test": frame(y=Y)}, "test is a data frame: name the column"),
        ({"data": (X, Y), "test": [(X, Y)]}, r"test must be a share in \[0, 1\)"),
        ({"data": (X, Y), "test": 1.5}, r"test must be a share in \[0, 1\), got 1.5"),
    ],
)
def test_wrong_data(given, words):
    with pytest.raises(tacit.TacitError, match=words):
        quick(**{"labels": [0, 1], **given})
