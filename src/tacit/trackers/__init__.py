"""Experiment trackers, as observers of a run: TensorBoard, MLflow, Weights & Biases.

    tacit.train(observers=[tacit.trackers.TensorBoardTracker("logs")])

Their libraries are installed with `pip install "tacit[trackers]"`.
"""

from tacit.registry import discover
from tacit.trackers.base import Tracker, trackers

discover(__name__)

from tacit.trackers.mlflow import MLflowTracker  # noqa: E402
from tacit.trackers.tensorboard import TensorBoardTracker  # noqa: E402
from tacit.trackers.wandb import WandbTracker  # noqa: E402

__all__ = ["MLflowTracker", "TensorBoardTracker", "Tracker", "WandbTracker", "trackers"]
