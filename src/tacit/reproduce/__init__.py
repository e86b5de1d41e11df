"""The tables and figures of the papers, run again. An experiment is a TOML file that contains the published numbers."""

from tacit.reproduce.estimate import estimate_sentence
from tacit.reproduce.experiment import Experiment, ExperimentChart
from tacit.reproduce.files import available_experiments, load_experiment, read_experiment
from tacit.reproduce.reproduce import ExperimentResults, estimate, reproduce, tune
from tacit.reproduce.results import ResultRow, SeedSummary
from tacit.reproduce.tables import table_columns

__all__ = [
    "Experiment",
    "ExperimentChart",
    "ExperimentResults",
    "ResultRow",
    "SeedSummary",
    "available_experiments",
    "estimate",
    "estimate_sentence",
    "load_experiment",
    "read_experiment",
    "reproduce",
    "table_columns",
    "tune",
]
