"""Trackers with the real libraries, which write to a local folder."""

import logging
import sys
import time

import pytest

import tacit
from tacit.runs import Config, from_config
from tacit.trackers import MLflow, TensorBoard, Tracker, WeightsAndBiases, trackers

SETTINGS = {"algorithm": "const-d2p", "nodes": 4, "rounds": 4, "evaluate_every": 2, "epsilon": 2.0, "delta": 1e-3}


def test_tensorboard_gets_every_evaluation(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = tacit.train(observers=[TensorBoard(tmp_path)], **SETTINGS)
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert {"accuracy", "loss", "guaranteed_epsilon_simulated"} <= set(events.Tags()["scalars"])
    logged = [(event.step, pytest.approx(event.value, rel=1e-6)) for event in events.Scalars("accuracy")]
    assert [(row["round"], row["accuracy"]) for row in run.evaluations] == logged
    assert [event.step for event in events.Scalars("guaranteed_epsilon_simulated")] == [0, 2, 4]


def test_tensorboard_writes_into_the_folder_of_the_run(tmp_path):
    pytest.importorskip("tensorboard")
    tacit.train(observers=[TensorBoard()], out=tmp_path / "run", **SETTINGS)
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.filterwarnings("ignore")  # of the library's own dependencies
def test_mlflow_gets_settings_metrics_and_privacy(tmp_path, monkeypatch):
    library = pytest.importorskip("mlflow.tracking")
    use_no_settings_of_mlflow(monkeypatch)
    tracker = MLflow(uri=f"file:{tmp_path}", experiment="mine")
    run = tacit.train(observers=[tracker], **SETTINGS)
    client = library.MlflowClient(tracking_uri=f"file:{tmp_path}")
    saved = client.get_run(tracker.run_id)
    assert saved.info.status == "FINISHED"
    assert saved.data.params["privacy.epsilon"] == "2.0"
    assert saved.data.metrics["accuracy"] == run.evaluations[-1]["accuracy"]
    assert float(saved.data.tags["guaranteed_epsilon"]) == run.privacy.guaranteed
    assert saved.data.tags["privacy"] == run.privacy.sentence()
    assert saved.data.params["simulated"] == saved.data.tags["simulated"] == "True"
    assert [each.step for each in client.get_metric_history(tracker.run_id, "loss")] == [0, 2, 4]


def use_no_settings_of_mlflow(monkeypatch):
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "")  # restored at the end of the test, also if the tracker sets it
        monkeypatch.delenv(name)


@pytest.mark.filterwarnings("ignore")  # of the library's own dependencies
@pytest.mark.parametrize(("arguments", "folder"), [((), "mlruns"), (("runs/log", "mine"), "runs/log")])
def test_mlflow_logs_to_a_folder(tmp_path, monkeypatch, arguments, folder):
    pytest.importorskip("mlflow.tracking")
    use_no_settings_of_mlflow(monkeypatch)
    monkeypatch.chdir(tmp_path)
    tracker = MLflow(*arguments)
    tacit.train(observers=[tracker], **SETTINGS)
    assert list((tmp_path / folder).glob(f"*/{tracker.run_id}/metrics/accuracy"))


@pytest.mark.filterwarnings("ignore")  # of the library's own dependencies
def test_an_error_of_mlflow_is_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("mlflow.tracking")
    use_no_settings_of_mlflow(monkeypatch)
    with pytest.raises(tacit.TacitError, match='MLflow cannot log to "nowhere://x", use a folder or a running server'):
        MLflow("nowhere://x")
    (tmp_path / "file").write_text("")
    with pytest.raises(tacit.TacitError, match="MLflow cannot log to"):
        tacit.train(observers=[MLflow(tmp_path / "file")], **SETTINGS)


def test_wandb_refuses_an_unknown_mode():
    with pytest.raises(tacit.TacitError, match=r'unknown mode .* "ofline"; did you mean "offline"'):
        WeightsAndBiases(mode="ofline")


def complete(file, last):
    """The content of a file that another process of the library writes, once it contains the text `last`."""
    for _ in range(300):
        if last in file.read_bytes():
            break
        time.sleep(0.1)
    return file.read_bytes()


@pytest.mark.filterwarnings("ignore")  # of the library's own dependencies
def test_wandb_writes_offline_by_default(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setattr(logging, "raiseExceptions", False)  # the library logs while pytest has closed its streams
    run = tacit.train(observers=[WeightsAndBiases(project="mine", folder=tmp_path)], **SETTINGS)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    logged = complete(file, b"not_covered")
    for key, value in (("privacy.epsilon", '"2.0"'), ("guaranteed_epsilon", repr(run.privacy.guaranteed))):
        assert key.encode() in logged, key
        assert value.encode() in logged, key
    assert all(repr(row["accuracy"]).encode() in logged for row in run.evaluations)


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow.tracking"), ("wandb", "wandb")]
)
def test_a_missing_library_is_named(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(tacit.TacitError, match=r'is not installed: pip install "tacit\[trackers\]"'):
        trackers[name]()


def test_trackers_change_nothing(tmp_path):
    pytest.importorskip("tensorboard")
    plain, tracked = tacit.train(**SETTINGS), tacit.train(observers=[TensorBoard(tmp_path)], **SETTINGS)
    assert plain.models.equal(tracked.models)
    assert plain.privacy.guaranteed == tracked.privacy.guaranteed


class Recorded(Tracker):
    """A tracker that keeps what it gets."""

    def open(self, run, settings):
        self.settings = settings

    def log(self, step, numbers):
        self.numbers = numbers

    def close(self, summary):
        self.summary = summary


@pytest.mark.parametrize(
    ("algorithm", "measure", "not_covered"),
    [
        ({"name": "const-d2p"}, [], "none"),
        ({"name": "const-d2p"}, ["stationarity"], "stationarity"),
        ({"name": "partpsp", "share": ["0.weight"]}, [], "accuracy, loss, consensus, primal_norm"),
        ({"name": "sgp"}, [], "all"),  # it adds no noise
    ],
)
def test_metrics_that_the_guarantee_does_not_cover_are_named(algorithm, measure, not_covered):
    target = {"delta": 1e-3} | ({} if algorithm["name"] == "sgp" else {"epsilon": 2.0})
    config = {"rounds": 2, "graph": {"name": "ring", "nodes": 4}, "measure": measure, "privacy": target}
    config |= {"algorithm": algorithm}
    tracker = Recorded()
    run = from_config(Config.parse(config), observers=[tracker]).go()
    assert set(tracker.summary["not_covered"].split(", ")) == set(not_covered.split(", "))
    assert tracker.summary["privacy"] == run.privacy.sentence()
    assert tracker.settings["simulated"] == "True"
    assert tracker.numbers.get("guaranteed_epsilon_simulated") == run.privacy.guaranteed
