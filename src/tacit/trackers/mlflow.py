"""Logs runs to MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import shorten
from typing import Any

from tacit.errors import TacitError
from tacit.runs import Run
from tacit.trackers.base import Tracker, missing_library, trackers


@trackers.register("mlflow")
class MLflow(Tracker):
    """Logs to a folder or a tracking server of MLflow.

    Args:
        uri: A folder, or the address of a tracking server; None: that of `MLFLOW_TRACKING_URI`, or else `mlruns`.
        experiment: The name of the experiment.
    """

    def __init__(self, uri: str | Path | None = None, experiment: str = "tacit") -> None:
        try:
            from mlflow.tracking import MlflowClient, get_tracking_uri, is_tracking_uri_set
        except ImportError:
            raise missing_library("MLflow") from None
        configured = get_tracking_uri() if is_tracking_uri_set() else "mlruns"  # type: ignore[no-untyped-call]
        self._uri, self._experiment = str(configured if uri is None else uri), experiment
        if self._uri.startswith("file:") or (":" not in self._uri and self._uri not in ("databricks", "uc")):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 otherwise refuses folders
        try:
            self._client = MlflowClient(tracking_uri=self._uri)
        except Exception as error:
            raise self._refusal(error) from None

    def open(self, run: Run, settings: dict[str, str]) -> None:
        try:
            found = self._client.get_experiment_by_name(self._experiment)
            experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
            name = run.config.get("name") or run.algorithm.title
            self.run_id = self._client.create_run(experiment, run_name=name).info.run_id
            for key, value in settings.items():
                self._client.log_param(self.run_id, key, value)
        except Exception as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> TacitError:
        cause = shorten(str(error), 160, placeholder=" …").rstrip(".")
        return TacitError(f'MLflow cannot log to "{self._uri}", use a folder or a running server: {cause}')

    def log(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._client.log_metric(self.run_id, name, value, step=step)

    def close(self, summary: dict[str, Any]) -> None:
        for key, value in summary.items():
            self._client.set_tag(self.run_id, key, str(value))
        self._client.set_terminated(self.run_id, "FAILED" if summary["stopped"] else "FINISHED")
