"""The papers' tables and figures, run again: an experiment is a TOML file, with the published numbers in it."""

from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import available, load
from tacit.reproduce.reproduce import reproduce

__all__ = ["Experiment", "available", "load", "reproduce"]
