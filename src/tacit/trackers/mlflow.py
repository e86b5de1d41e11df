"""Logs runs to MLflow."""

from __future__ import annotations

from typing import Any

from tacit.runs import Run
from tacit.trackers.base import Tracker, missing_library, trackers


@trackers.register("mlflow")
class MLflow(Tracker):
    """Logs to the tracking server or folder that MLflow is configured for.

    Args:
        uri: The tracking URI; None: that of the environment (`MLFLOW_TRACKING_URI`).
        experiment: The name of the experiment.
    """

    def __init__(self, uri: str | None = None, experiment: str = "tacit") -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise missing_library("MLflow") from None
        self._client, self._experiment = MlflowClient(tracking_uri=uri), experiment

    def open(self, run: Run, settings: dict[str, str]) -> None:
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        name = run.config.get("name") or run.algorithm.title
        self.run_id = self._client.create_run(experiment, run_name=name).info.run_id
        for key, value in settings.items():
            self._client.log_param(self.run_id, key, value)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._client.log_metric(self.run_id, name, value, step=step)

    def close(self, summary: dict[str, Any]) -> None:
        for key, value in summary.items():
            self._client.set_tag(self.run_id, key, str(value))
        self._client.set_terminated(self.run_id, "FAILED" if summary["stopped"] else "FINISHED")
