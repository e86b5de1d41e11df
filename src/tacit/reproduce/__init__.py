"""The tables and figures of the papers, run again. An experiment is a TOML file that contains the published numbers."""

from tacit.reproduce.estimate import estimate_sentence
from tacit.reproduce.experiment import Experiment, ExperimentChart
from tacit.reproduce.files import available_experiments, load_experiment, read_experiment
from tacit.reproduce.page_blocks import block_names, has_results, shown_experiment, with_blocks
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
    "block_names",
    "estimate",
    "estimate_sentence",
    "has_results",
    "load_experiment",
    "read_experiment",
    "reproduce",
    "shown_experiment",
    "table_columns",
    "tune",
    "with_blocks",
]
