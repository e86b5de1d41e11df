"""The trained model of a run: its file, its predictions, and what is known about its privacy."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tacit
from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.runs import Config, UserParts, from_config, verify
from tacit.tasks import Model
from tests.helpers import quadratic_task
from tests.runs.cases import SMALL, AfterRound, interrupt_after, small
from tests.runs.trained import TARGETS, Net, records, trained

DP_NORM = {"name": "dp-norm", "sigma": 0.5, **algorithms.example("dp-norm")}
PARTIAL = {"algorithm": {"name": "dyn-d2p", "noise_multiplier": 1.5, "share": ["0.weight"]}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run, which tests copy."""
    return small(out=tmp_path_factory.mktemp("finished") / "run").go().out


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def description(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        return json.loads(file.metadata()["tacit"])


def rewrite(folder, change=lambda description: None, state=None):
    """Write the model file again, with another description or other parameters, but no other file."""
    described = description(folder)
    change(described)
    path = folder / "model.safetensors"
    save_file(load_file(path) if state is None else state, path, {"tacit": json.dumps(described)})


def test_state_dict_loads_into_the_original_module(tmp_path):
    """Also frozen parameters, buffers and a parameter with two names."""
    run = trained(parts={"model": Net()}, model="python: Net", out=tmp_path / "run")
    state, module = load_file(tmp_path / "run/model.safetensors"), Net()
    assert set(state) == set(module.state_dict())
    module.load_state_dict(state)
    assert torch.equal(module.scale, torch.full((4,), 2.0))
    assert not torch.equal(module.first.weight, Net().first.weight)
    x, mean = run.task.data.test_x, run.models.mean(0)
    assert torch.allclose(module(x), run.task.model.outputs(mean, x), atol=1e-6)
    loaded = run.model()
    assert torch.allclose(loaded(x), module(x))
    assert (type(loaded), loaded.training) == (Net, False)
    names = {name: parameter.requires_grad for name, parameter in loaded.named_parameters()}
    assert names == {name: parameter.requires_grad for name, parameter in Net().named_parameters()}


@pytest.mark.parametrize("task", TARGETS)
@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_predictions_of_run_and_folder_are_those_of_the_evaluation(task, model, tmp_path):
    run = trained(task, model, out=tmp_path / "run")
    loaded, x = tacit.load(tmp_path / "run"), run.task.data.test_x
    tests = run.task.predict_tests(run.models.mean(0))
    expected, target = tests.predictions.numpy(), TARGETS[task]
    if target.labels:
        np.testing.assert_allclose(run.predict_proba(x), expected, atol=1e-6)
        np.testing.assert_array_equal(run.predict_proba(x), loaded.predict_proba(x.numpy()))
    else:
        with pytest.raises(TacitError, match=f"this model predicts a {target.kind}, which has no probabilities"):
            loaded.predict_proba(x)
        np.testing.assert_allclose(run.predict(x), expected, rtol=1e-5)
        assert (run.predict(x) >= target.range[0]).all()
    predicted = loaded.predict(x.tolist())
    assert predicted.tolist() == run.predict(x).tolist()
    if target.kind == "class":
        assert predicted.tolist() == [target.labels[i] for i in expected.argmax(1)]
    elif target.kind == "labels":
        assert predicted.tolist() == (expected >= 0.5).astype(int).tolist()
    assert json.loads(json.dumps(description(tmp_path / "run")["target"])) == {
        "kind": target.kind,
        "labels": list(target.labels),
        "range": None if target.range is None else list(target.range),
        "name": target.name,
    }


def test_models_of_nodes_are_loaded_from_the_folder(tmp_path):
    run = small(model="cnn", data={"name": "digits", "limit": 300}, out=tmp_path / "run").go()
    loaded, x = tacit.load(tmp_path / "run"), run.task.data.test_x[:5]
    for node in range(5):
        outputs = run.task.model.outputs(run.models[node], x)
        assert torch.allclose(loaded.model(node)(x), outputs, atol=1e-6)
        assert torch.allclose(run.model(node)(x), outputs, atol=1e-6)
        assert loaded.trained(node).description.node == node
    with pytest.raises(TacitError, match="has no model of node 5; it has the nodes 0 to 4"):
        loaded.model(5)
    with pytest.raises(TacitError, match="there is no node 5 here: the nodes are 0 to 4"):
        run.model(5)


def test_description_is_sufficient_and_states_the_privacy(finished):
    found = description(finished)
    privacy = json.loads((finished / "result.json").read_text())["privacy"]
    assert found["tacit"] == tacit.__version__
    assert (found["rounds"], found["node"], found["complete"]) == (12, None, True)
    assert found["architecture"]["name"] == "logistic"
    assert found["architecture"]["parameters"] == {"biases": True}
    assert (found["architecture"]["inputs"], found["architecture"]["outputs"]) == ([1, 8, 8], 10)
    assert (found["names"], found["shapes"]) == (["0.weight", "0.bias"], [[10, 64], [10]])
    assert found["head"]["name"] == "classification"
    assert found["target"]["labels"] == list(range(10))
    stated = found["privacy"]
    assert stated.pop("covered") is True
    assert stated.pop("protects") == "all nodes"
    assert stated == {key: privacy[key] for key in stated}
    assert (stated["guaranteed"] > 0, stated["simulated"]) == (True, True)


def test_load_returns_what_the_run_has_measured(finished):
    loaded = tacit.load(str(finished))
    assert isinstance(loaded.history, pd.DataFrame)
    assert loaded.history["round"].tolist() == [0, 5, 10, 12]
    assert loaded.config["rounds"] == 12
    assert loaded.privacy.guaranteed == loaded.result["privacy"]["guaranteed"]
    assert loaded.verification.holds
    assert tacit.load(finished, verify=False).verification is None


NOT_COVERED = {
    "dp-norm": (DP_NORM, "contain values without noise"),
    "partpsp, exact": (
        {"name": "partpsp", "noise_rate": 0.01, "share": ["0.weight"], "local": "exact"},
        "contain values without noise",
    ),
    "no noise": ({"name": "sgp"}, "values leave the nodes without noise"),
}


@pytest.mark.parametrize("case", NOT_COVERED)
def test_models_that_the_guarantee_does_not_cover_have_no_epsilon(case, tmp_path):
    algorithm, reason = NOT_COVERED[case]
    graph = {"name": "ring", "nodes": 4}
    run = small(algorithm=algorithm, graph=graph, out=tmp_path / "run").go()
    stated = description(tmp_path / "run")["privacy"]
    assert (stated["covered"], stated["guaranteed"], stated["claimed"]) == (False, None, None)
    assert reason in stated["reason"]
    assert (run.privacy.guaranteed is None) == (case == "no noise")  # the messages of the others are protected
    assert verify(tmp_path / "run").differences == ()


def test_partial_sharing_has_models_of_nodes_only(tmp_path):
    run = small(**PARTIAL, out=tmp_path / "run").go()
    loaded, x = tacit.load(tmp_path / "run"), run.task.data.test_x[:5]
    assert set(load_file(tmp_path / "run/model.safetensors")) == {"0.weight"}
    assert description(tmp_path / "run")["complete"] is False
    for each in (run, loaded):
        with pytest.raises(TacitError, match="share only some of the parameters, so there is no complete mean model"):
            each.predict(x)
        expected = run.task.model.outputs(run.models[3], x).softmax(1)
        np.testing.assert_allclose(each.predict_proba(x, node=3), expected, atol=1e-6)


def test_normalised_records_are_normalised_for_predictions(tmp_path):
    data = {"name": "digits", "limit": 300, "normalise": "unit"}
    run = small(data=data, out=tmp_path / "run").go()
    loaded, raw = tacit.load(tmp_path / "run"), small(data={**data, "normalise": "none"}).task.data.test_x
    assert description(tmp_path / "run")["normalise"] == "unit"
    np.testing.assert_allclose(loaded.predict_proba(raw), run.predict_proba(run.task.data.test_x), atol=1e-6)


# Other files


def test_changes_of_the_model_file_are_found(run):
    path = run / "model.safetensors"
    rewrite(run, state={key: value + 1 for key, value in load_file(path).items()})
    assert verify(run).differences == ("model.safetensors was changed after the run had ended",)
    with pytest.raises(TacitError, match=r"model\.safetensors was changed after the run had ended"):
        tacit.load(run)
    path.unlink()
    assert verify(run).differences == ("model.safetensors is missing",)


def test_another_epsilon_in_the_model_file_is_found(run):
    rewrite(run, lambda found: found["privacy"].update(guaranteed=0.1))
    found = verify(run).differences
    assert found[0].startswith("model.safetensors: privacy: guaranteed is 0.1, but the ledger gives ")
    rewrite(run, lambda found: found["privacy"].update(covered=False, guaranteed=None))
    assert any("privacy: covered is false" in line for line in verify(run).differences)


def test_model_of_secret_noise_is_checked_without_the_key_if_it_was_released(tmp_path):
    secret = {**SMALL, "noise": "secret", "sharding": "digest", "batch": {"size": 8}}
    from_config(Config.parse(secret), out=tmp_path / "run", secret_noise=True).go()
    assert description(tmp_path / "run")["privacy"]["simulated"] is False
    assert verify(tmp_path / "run").differences == ()
    rewrite(tmp_path / "run", state={"0.weight": torch.zeros(10, 64), "0.bias": torch.zeros(10)})
    assert verify(tmp_path / "run").differences == ("model.safetensors was changed after the run had ended",)


def test_digest_of_a_model_that_was_not_released_needs_a_key_of_the_owner(tmp_path, monkeypatch):
    """Anyone could test a guess of the records with a digest that needs no key."""
    secret = {**SMALL, "noise": "secret", "sharding": "digest", "batch": {"size": 8}}
    secret |= {"algorithm": DP_NORM, "graph": {"name": "ring", "nodes": 4}}
    from_config(Config.parse(secret), out=tmp_path / "run", secret_noise=True).go()
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "elsewhere"))
    found = verify(tmp_path / "run")
    assert found.differences == ()
    for name in ("model.safetensors", "models.safetensors", "checkpoint.safetensors"):
        assert f"{name}: its digest can be computed only with a secret key of the run's owner" in found.unchecked


DAMAGED = {
    "missing": (None, "model.safetensors does not exist"),
    "empty": (b"", "cannot be read as a model file"),
    "text": (b"hello, world", "cannot be read as a model file"),
    "other file": ("models.safetensors", "was not written by Tacit"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_and_foreign_files_are_refused_with_one_sentence(case, run):
    content, sentence = DAMAGED[case]
    path = run / "model.safetensors"
    path.unlink()
    if content is not None:
        path.write_bytes((run / content).read_bytes() if isinstance(content, str) else content)
    with pytest.raises(TacitError, match=sentence) as refused:
        tacit.load(run, verify=False).model()
    assert "\n" not in str(refused.value)


CHANGES = {
    "not JSON": (None, "metadata are not JSON"),
    "other version": ({"format": 2}, "was written by another version of Tacit"),
    "unknown key": ({"surprise": 1}, "surprise = 1"),
    "no target": ({"target": None}, "target = None"),
    "unknown model": ({"architecture": {"name": "bigger"}}, "'bigger' of this run is not part of Tacit"),
    "unknown head": ({"head": {"name": "bigger"}}, 'unknown task "bigger"'),
    "other size": ({"architecture": {"inputs": [1, 8, 9]}}, "do not fit the module Sequential"),
    "impossible size": ({"architecture": {"inputs": [2**62, 2**62]}}, "the model logistic cannot be created"),
    "other parameters": ({"architecture": {"parameters": {"depth": 3}}}, 'unknown parameter of model logistic "depth"'),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changed_metadata_are_refused_with_one_sentence(case, run):
    change, sentence = CHANGES[case]

    def edit(found):
        for key, value in change.items():
            found[key] = {**found[key], **value} if isinstance(value, dict) else value

    if change is None:
        path = run / "model.safetensors"
        save_file(load_file(path), path, {"tacit": "{"})
    else:
        rewrite(run, edit)
    with pytest.raises(TacitError, match=sentence) as refused:
        tacit.load(run, verify=False).model()
    assert "\n" not in str(refused.value)


def test_no_code_that_a_folder_names_is_executed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(run)
    for file in (run / "evil.py", tmp_path / "evil.py"):
        file.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'executed')!r}).touch()\nNet = dict\n")
    for part in ("architecture", "head"):
        rewrite(run, lambda found, part=part: found[part].update(name=f"{run}/evil.py:Net"))
        with pytest.raises(TacitError):
            tacit.load(run, verify=False).model()
        rewrite(run, lambda found, part=part: found[part].update(name="evil.py:Net"))
        with pytest.raises(TacitError):
            tacit.load(run, verify=False).model()
    assert not (tmp_path / "executed").exists()


def test_module_of_a_user_must_be_passed(tmp_path):
    run = trained(parts={"model": Net()}, model="python: Net", out=tmp_path / "run")
    x = run.task.data.test_x
    found = description(tmp_path / "run")["architecture"]
    assert (found["name"], found["module"]) == (None, "Net")
    assert "pass a Net to tacit.load" in found["note"]
    with pytest.raises(TacitError, match=r"the module 'Net' of this run is not part of Tacit: pass it with tacit.load"):
        tacit.load(tmp_path / "run").predict(x)
    given = Net()
    loaded = tacit.load(tmp_path / "run", model=given)
    np.testing.assert_allclose(loaded.predict_proba(x), run.predict_proba(x), atol=1e-6)
    assert not torch.equal(given.last.weight, loaded.model().last.weight)  # a copy is trained
    np.testing.assert_allclose(loaded.predict_proba(x, node=2), run.predict_proba(x, node=2), atol=1e-6)
    with pytest.raises(TacitError, match="the trained parameters do not fit the module Net"):
        tacit.load(tmp_path / "run", model=Net(outputs=5)).model()
    with pytest.raises(TacitError, match="the module Linear has other parameters than the trained model"):
        tacit.load(tmp_path / "run", model=torch.nn.Linear(4, 3)).model()


def test_module_in_a_file_of_the_user_is_named_when_it_is_loaded(tmp_path):
    name = f"{__file__.removesuffix('test_trained_model.py')}trained.py:net"
    run = trained(model=name, out=tmp_path / "run")
    x, found = run.task.data.test_x, description(tmp_path / "run")["architecture"]
    assert found["name"] == "trained.py:net"
    with pytest.raises(TacitError, match=r"'trained\.py:net' of this run is not part of Tacit"):
        tacit.load(tmp_path / "run").model()
    loaded = tacit.load(tmp_path / "run", model=name)
    np.testing.assert_allclose(loaded.predict_proba(x), run.predict_proba(x), atol=1e-6)


def test_model_without_module_or_known_outputs(tmp_path):
    task = quadratic_task(nodes=5)
    run = small().go()
    run.task = task
    with pytest.raises(TacitError, match="created from a loss function"):
        run.model(0)

    def distance(outputs, y):
        return (outputs.sum(1) - y).square()

    run = trained(
        "auto",
        data=records(TARGETS["regression"]),
        parts={"model": Model(torch.nn.Linear(4, 2), distance)},
        model="python: Model",
    )
    assert run.model()(torch.zeros(1, 4)).shape == (1, 2)
    with pytest.raises(TacitError, match="the outputs of this model have no known meaning"):
        run.predict(torch.zeros(1, 4))


# Records


def test_features_of_every_form_are_accepted_and_others_refused():
    run = small().go()
    x = run.task.data.test_x[:4]
    expected = run.predict(x).tolist()
    for same in (x.numpy(), x.double(), x.flatten(1), x.flatten(1).tolist(), pd.DataFrame(x.flatten(1).numpy())):
        assert run.predict(same).tolist() == expected
    assert run.predict(x[:0]).shape == (0,)
    assert run.predict_proba(x[:0]).shape == (0, 10)
    assert run.prepare(x.flatten(1)).shape == (4, 1, 8, 8)
    for wrong in (x[0], x[:, :, :4], 3.0):
        with pytest.raises(TacitError, match=r"features must have the shape \(records, 1, 8, 8\), got "):
            run.predict(wrong)
    with pytest.raises(TacitError, match="features must be numbers"):
        run.predict([["a", "b"]])
    holed = x.clone()
    holed[2, 0, 3, 3] = math.nan
    with pytest.raises(TacitError, match=r"record 2 \(counted from 0\) has a feature that is not a finite number"):
        run.predict(holed)
    weights = run.mean_parameters()[:64].view(1, 8, 8)  # of the first class: all products are positive
    with pytest.raises(TacitError, match=r"the model has no finite prediction for record 1 \(counted from 0\)"):
        run.predict(torch.stack([x[0], 3e38 * weights.sign()]))


# Interrupted runs


def test_resumed_run_has_the_model_of_the_uninterrupted_one(tmp_path):
    whole = small(out=tmp_path / "whole").go()
    small(out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    assert description(tmp_path / "run")["rounds"] == 7
    assert verify(tmp_path / "run").differences == ()
    resumed = small(out=tmp_path / "run", resume=True).go()
    files = [(folder / "model.safetensors").read_bytes() for folder in (whole.out, resumed.out)]
    assert files[0] == files[1]
    assert verify(tmp_path / "run").differences == ()


def test_model_and_its_epsilon_follow_the_rounds(tmp_path):
    """The file of every evaluation states the ε until then; an extended run replaces it."""
    seen = {}

    def read(run):
        seen[run.t] = description(tmp_path / "run")

    small(out=tmp_path / "run", observers=[AfterRound(5, read), AfterRound(10, read)]).go()
    assert [seen[t]["rounds"] for t in (5, 10)] == [5, 10]
    end = description(tmp_path / "run")
    assert 0 < seen[5]["privacy"]["guaranteed"] < seen[10]["privacy"]["guaranteed"] < end["privacy"]["guaranteed"]
    small(out=tmp_path / "run", resume=True, extend=3).go()
    longer = description(tmp_path / "run")
    assert longer["rounds"] == 15
    assert longer["privacy"]["guaranteed"] > end["privacy"]["guaranteed"]
    assert verify(tmp_path / "run").differences == ()


def test_diverged_models_have_no_mean_and_no_file(tmp_path):
    """The last complete round is finite for every node; the next one is not."""

    class Diverge(tacit.Observer):
        def on_round(self, run):
            if run.t == 6:
                run.checkpoint.state.x[2] = math.inf
                raise KeyboardInterrupt

    run = small(out=tmp_path / "run", observers=[Diverge()], algorithm={"name": "sgp"}).go()
    assert not (tmp_path / "run/model.safetensors").exists()
    with pytest.raises(TacitError, match="not finite, so they have no mean"):
        run.model()
    assert run.model(0) is not None


def test_runs_without_config_describe_their_module():
    data = records(TARGETS["binary"])
    run = from_config(Config.parse(SMALL | {"batch": {"size": 8}, "rounds": 1}), UserParts(data=data)).go()
    run.config = {}
    assert run.trained().description.architecture.name is None
    assert run.predict(data.test_x).shape == (20,)
