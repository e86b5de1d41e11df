"""The command `tacit export`: exported models give the predictions of the run."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import tacit as package
from tacit.cli.privacy_lines import model_privacy_lines
from tacit.errors import TacitError
from tacit.runs import TrainedModel, export_model
from tacit.tasks import Target
from tests.runs.cases import small
from tests.runs.trained import TARGETS, Net, records, trained

MODELS = {
    "logistic": {},
    "mlp": {"hidden": [5], "activation": "gelu"},
    "cnn": {"width": 2, "hidden": 4},
    "resnet10": {"width": 4},
    "vit": {},
}


def run_onnx(path, features):
    session = onnxruntime.InferenceSession(Path(path).read_bytes())
    return session.run(None, {"features": np.asarray(features, np.float32)})[0]


def run_torchscript(path, features):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit", category=DeprecationWarning)
        module = torch.jit.load(path)
    return module(features).detach().numpy()


def expected(run, x):
    return run.predict_proba(x) if run.task.head.classifies else run.predict(x)


@pytest.mark.parametrize("task", TARGETS)
def test_predictions_of_exported_files_agree_for_every_head(tacit, task):
    run = trained(task, "mlp", out=Path("run"))
    for form, apply, suffix in (("onnx", run_onnx, "onnx"), ("torchscript", run_torchscript, "pt")):
        ended = tacit("export", "run", "--format", form)
        assert (ended.code, ended.err) == (0, ""), ended.err
        assert ended.out.splitlines()[0] == f"Model: run.{suffix}"
        for x in (run.task.data.test_x, run.task.data.test_x[:1]):  # any number of records
            np.testing.assert_allclose(apply(f"run.{suffix}", x), expected(run, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_of_exported_files_agree_for_the_models_of_tacit(tacit, name):
    """With normalised records, which the exported file normalises itself."""
    data = records(Target.of_classes(3), inputs=(1, 8, 8)).normalised("unit")
    run = trained("classification", {"name": name, **MODELS[name]}, data=data, rounds=2, out=Path("run"))
    raw = records(Target.of_classes(3), inputs=(1, 8, 8)).test_x
    assert tacit("export", "run", "--out", "model.onnx").code == 0
    np.testing.assert_allclose(run_onnx("model.onnx", raw), run.predict_proba(raw), atol=1e-5)
    assert tacit("export", "run", "--format", "torchscript", "--out", "model.pt").code == 0
    np.testing.assert_allclose(run_torchscript("model.pt", raw), run.predict_proba(raw), atol=1e-5)


def test_state_dict_and_metadata(tacit):
    run = trained(out=Path("run"))
    assert tacit("export", "run", "--format", "state-dict").code == 0
    assert all(torch.equal(value, run.model().state_dict()[key]) for key, value in load_file("run.safetensors").items())
    with safe_open("run.safetensors", "pt") as file:
        described = file.metadata()["tacit"]
    with safe_open("run/model.safetensors", "pt") as file:
        assert file.metadata()["tacit"] == described
    assert tacit("export", "run").code == 0
    properties = {each.key: each.value for each in onnx.load("run.onnx").metadata_props}
    assert properties["tacit"] == described
    assert tacit("export", "run", "--format", "torchscript").code == 0
    extra = {"tacit": ""}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit", category=DeprecationWarning)
        torch.jit.load("run.pt", _extra_files=extra)
    assert extra["tacit"] == described.encode()


def test_the_epsilon_of_the_model_is_printed(tacit):
    small(out=Path("run")).go()
    lines = tacit("export", "run", "--format", "state-dict").out.splitlines()
    assert lines[1].startswith("Privacy of the model, for its training records: Guaranteed (simulated) ε = ")
    assert lines[2:] == ["SIMULATION: the noise is derived from seed 0, so this run protects nobody."]
    result = json.loads(tacit("export", "run", "--format", "state-dict", "--json").out)
    assert (result["format"], result["node"], result["privacy"]["covered"]) == ("state-dict", None, True)
    assert result["verified"] is True
    lines = tacit("export", "run", "--format", "state-dict", "--no-verify").out.splitlines()
    assert lines[1].startswith("Privacy of the model, for its training records: stated, not verified (simulated): ε = ")
    assert "uaranteed" not in lines[1]
    result = json.loads(tacit("export", "run", "--format", "state-dict", "--no-verify", "--json").out)
    assert result["verified"] is False
    small(algorithm={"name": "sgp"}, out=Path("open")).go()
    line = tacit("export", "open", "--format", "state-dict").out.splitlines()[1]
    assert line == "No ε covers this model: values leave the nodes without noise"


def test_epsilon_of_a_site_is_for_its_own_records():
    privacy = trained().trained().description.privacy.model_copy(update={"protects": "this site", "simulated": False})
    (line,) = model_privacy_lines(privacy.model_copy(update={"note": None}), verified=True)
    assert line.startswith("Privacy of the model, for the training records of this site: Guaranteed ε = ")


def test_model_of_one_node(tacit):
    run = small(algorithm={"name": "dyn-d2p", "noise_multiplier": 1.5, "share": ["0.weight"]}, out=Path("run")).go()
    ended = tacit("export", "run")
    assert (ended.code, ended.out) == (2, "")
    assert "no complete mean model: choose the model of one node, with node=K (--node K)" in ended.err
    assert tacit("export", "run", "--node", "3").code == 0
    x = run.task.data.test_x[:5]
    np.testing.assert_allclose(run_onnx("run.onnx", x), run.predict_proba(x, node=3), atol=1e-5)
    ended = tacit("export", "run", "--node", "5")
    assert (ended.code, ended.err) == (2, "error: run has no model of node 5; it has the nodes 0 to 4\n")


def test_model_of_a_user_is_named_by_its_file(tacit):
    file = Path(__file__).parents[1] / "runs/trained.py"
    trained(parts={"model": Net()}, model="python: Net", out=Path("run"))
    ended = tacit("export", "run")
    assert (ended.code, "--model FILE.py:NAME" in ended.err) == (2, True)
    assert tacit("export", "run", "--model", f"{file}:net").code == 0


def test_module_that_cannot_be_exported_is_refused_with_one_sentence(tmp_path):
    """A module with a branch on the values of records: a trace would contain one of its branches only."""

    class Branching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x) if float(x.sum()) > 0 else -self.layer(x)

    model = trained().trained()
    branching = TrainedModel(Branching().eval(), model.head, None, model.description)
    for form in ("onnx", "torchscript"):
        with pytest.raises(TacitError, match="this model cannot be exported to ") as refused:
            export_model(branching, tmp_path / "model", form)
        assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_package_is_named(tacit, monkeypatch):
    trained(out=Path("run"))
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    ended = tacit("export", "run")
    assert ended.code == 2
    assert ended.err == 'error: ONNX export needs onnx and onnxscript: pip install "tacit[onnx]"\n'


def test_changed_run_is_refused(tacit):
    small(out=Path("run")).go()
    path = Path("run/model.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    ended = tacit("export", "run", "--format", "state-dict")
    assert (ended.code, ended.out) == (2, "")
    assert "model.safetensors was changed after the run had ended" in ended.err
    assert not Path("run.safetensors").exists()
    assert tacit("export", "run", "--format", "state-dict", "--no-verify").code == 0


def test_export_is_quiet_in_a_process_of_its_own(tmp_path):
    """Torch logs and prints while it exports."""
    trained(out=tmp_path / "run")
    command = [sys.executable, "-W", "default", "-m", "tacit", "export", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "Model: run.onnx"
    assert [line for line in done.stderr.splitlines() if "Verifying" not in line and "Exporting" not in line] == []
    assert package.load(tmp_path / "run").predict(np.zeros((2, 4))).shape == (2,)
