"""Trained models: the model file of a run, predictions for new records, and export to other formats."""

from tacit.runs.prediction.description import ModelDescription
from tacit.runs.prediction.export import SUFFIXES as EXPORT_SUFFIXES
from tacit.runs.prediction.export import export_model
from tacit.runs.prediction.loading import trained_in_folder, trained_in_memory
from tacit.runs.prediction.model_file import ModelFile, mean_parameters, write_model
from tacit.runs.prediction.model_privacy import ModelPrivacy, covers_models
from tacit.runs.prediction.prediction_table import PredictionWriter
from tacit.runs.prediction.record_files import RecordFile
from tacit.runs.prediction.trained_model import TrainedModel, TrainedRun

__all__ = [
    "EXPORT_SUFFIXES",
    "ModelDescription",
    "ModelFile",
    "ModelPrivacy",
    "PredictionWriter",
    "RecordFile",
    "TrainedModel",
    "TrainedRun",
    "covers_models",
    "export_model",
    "mean_parameters",
    "trained_in_folder",
    "trained_in_memory",
    "write_model",
]
