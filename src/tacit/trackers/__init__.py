"""Experiment trackers, as observers of a run: TensorBoard, MLflow, Weights & Biases.

    tacit.train(observers=[tacit.trackers.TensorBoard("runs/tensorboard")])

Their libraries are installed with `pip install "tacit[trackers]"`.
"""

from tacit.registry import discover
from tacit.trackers.base import Tracker, trackers

discover(__name__)

from tacit.trackers.mlflow import MLflow  # noqa: E402
from tacit.trackers.tensorboard import TensorBoard  # noqa: E402
from tacit.trackers.wandb import WeightsAndBiases  # noqa: E402

__all__ = ["MLflow", "TensorBoard", "Tracker", "WeightsAndBiases", "trackers"]
