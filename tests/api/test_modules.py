"""Modules of many kinds, used as in a user's script."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tacit
from tacit import Dataset, Model, TacitError
from tacit.algorithms import DPSGD
from tacit.runs import export_model
from tests.api.support_cases import CASES, make_data, table
from tests.tasks.module_cases import VOCABULARY, TwoInputs, two_inputs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "models.md"
SHORT = {"nodes": 2, "rounds": 3, "batch": 8, "graph": "complete", "algorithm": DPSGD(sigma=0.5, local_steps=1)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_module_is_supported_or_refused_as_the_table_says(case):
    torch.manual_seed(0)
    data = make_data(case.data)
    if case.refusal:
        with pytest.raises(TacitError) as refusal:
            tacit.train(case.build(), data, **SHORT)
        assert str(refusal.value).startswith(case.refusal)
        return
    run = tacit.train(case.build(), data, **SHORT)
    changed = run.models[0] != run.task.initial()[0]
    assert changed.double().mean() > 0.9  # by gradients and noise, which is rounded
    predictions = run.predict(data.test_x.numpy())
    outputs = run.task.predict_tests(run.mean_parameters())
    assert np.array_equal(predictions, run.task.head.decide(outputs.predictions).numpy())


def test_the_page_has_the_table_of_the_list():
    assert table() in DOCS.read_text(encoding="utf-8"), "run: python -m tests.api.support_cases"


def dropout_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10))


def test_a_run_with_dropout_is_repeated_and_resumed_exactly(tmp_path):
    given = {**SHORT, "algorithm": DPSGD(local_steps=1), "rounds": 6, "epsilon": 4.0, "delta": 1e-3}

    class Stop(tacit.Observer):
        def on_round(self, run):
            if run.t == 3:
                raise KeyboardInterrupt

    whole = tacit.train(dropout_net(), "digits", **given)
    again = tacit.train(dropout_net(), "digits", **given)
    assert torch.equal(whole.models, again.models)
    stopped = tacit.train(dropout_net(), "digits", **given, out=tmp_path / "run", observers=[Stop()])
    assert stopped.t == 3
    resumed = tacit.train(dropout_net(), "digits", **given, out=tmp_path / "run", resume=True)
    assert torch.equal(whole.models, resumed.models)
    assert tacit.verify(tmp_path / "run").holds


def test_dropout_leaves_epsilon_as_it_is():
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    given = {**SHORT, "algorithm": DPSGD(local_steps=1), "epsilon": 4.0, "delta": 1e-3}
    runs = [tacit.train(module, "digits", **given) for module in (plain, dropout_net())]
    assert runs[0].privacy.guaranteed == runs[1].privacy.guaranteed
    assert not torch.equal(runs[0].models, runs[1].models)


def test_a_model_with_forward_is_loaded_with_the_same_function(tmp_path):
    torch.manual_seed(0)
    model, data = Model(TwoInputs(), forward=two_inputs), make_data("numbers")
    run = tacit.train(model, data, **SHORT, out=tmp_path / "run")
    x = data.test_x.numpy()
    loaded = tacit.load(tmp_path / "run", model=Model(TwoInputs(), forward=two_inputs))
    assert np.array_equal(loaded.predict_proba(x), run.predict_proba(x))
    assert isinstance(loaded.model(), TwoInputs)
    export_model(loaded.trained(), tmp_path / "model.pt", "torchscript")
    exported = torch.jit.load(tmp_path / "model.pt")(data.test_x)
    np.testing.assert_allclose(exported.numpy(), run.predict_proba(x), rtol=1e-4)
    with pytest.raises(TacitError, match=r"pass it with tacit.load"):
        tacit.load(tmp_path / "run").predict(x)


@pytest.mark.parametrize("tokens", [True, False])
def test_tokens_stay_integers_from_training_to_the_exported_model(tmp_path, tokens):
    (case,) = (case for case in CASES if case.module == "`Embedding`")
    torch.manual_seed(0)
    data = make_data("tokens", tokens=tokens)
    assert data.x.dtype == (torch.int64 if tokens else torch.float32)
    run = tacit.train(case.build(), data, **SHORT, out=tmp_path / "run")
    assert tacit.verify(tmp_path / "run").holds
    loaded = tacit.load(tmp_path / "run", model=case.build())
    ids = np.array([[0, 1, 2, 3, 6], [6, 6, 6, 6, 6]])
    assert np.array_equal(loaded.predict_proba(ids), run.predict_proba(ids))
    assert loaded.prepare(ids).dtype == torch.int64
    export_model(run.trained(), tmp_path / "model.pt", "torchscript")
    exported = torch.jit.load(tmp_path / "model.pt")
    np.testing.assert_allclose(exported(torch.from_numpy(ids)).numpy(), run.predict_proba(ids), rtol=1e-5)
    with pytest.raises(TacitError, match="token that is not an integer"):
        run.predict(ids + 0.5)
    with pytest.raises(TacitError, match="token outside the model's embedding"):
        run.predict(ids + 1)


def test_a_private_token_outside_the_vocabulary_does_not_stop_the_run():
    (case,) = (case for case in CASES if case.module == "`Embedding`")
    data = make_data("tokens", tokens=True)
    torch.manual_seed(0)
    module = case.build()
    data.x[3, 0] = VOCABULARY  # the record counts as 0
    run = tacit.train(module, data, **SHORT)
    assert run.t == SHORT["rounds"]
    test_x = data.test_x.clone()
    test_x[0, 0] = -1
    with pytest.raises(TacitError, match="fails on the test records"):
        tacit.train(module, Dataset("own", data.x, data.y, test_x, data.test_y, data.target), **SHORT)


def test_tokens_are_refused_where_numbers_are_needed():
    data = make_data("tokens", tokens=True)
    with pytest.raises(TacitError, match=r"does not accept tokens \(integers\) of shape \(5,\)"):
        tacit.train(nn.Linear(5, 3), data, **SHORT)
    with pytest.raises(TacitError, match="x must contain integers, as tokens=True is set"):
        Dataset.from_arrays([[0.5], [1.0]], [0, 1], tokens=True)
    with pytest.raises(TacitError, match='normalise = "unit" is for numbers'):
        data.normalised("unit")


@pytest.mark.parametrize("tokens", [True, False])
def test_nothing_escapes_from_tokens_and_dropout(tokens):
    from tacit.audit import check_escapes
    from tacit.runs import Config, UserParts

    torch.manual_seed(0)
    (case,) = (case for case in CASES if case.module == "`Embedding` and `TransformerEncoderLayer`")
    settings = {"rounds": 2, "graph": {"name": "ring", "nodes": 2}, "batch": {"size": 8}, "privacy": {"epsilon": 4.0}}
    checked = check_escapes(
        Config.parse({**settings, "algorithm": {"name": "dp-sgd", "local_steps": 1}}),
        UserParts(data=make_data("tokens", tokens=tokens), model=case.build()),
    )
    assert checked.escapes == ()
    assert checked.releases > 0
