"""From a config to a finished run: building, the loop, its files."""

from tacit.runs.build import from_config
from tacit.runs.config import Config
from tacit.runs.run import Run
from tacit.runs.train import train

__all__ = ["Config", "Run", "from_config", "train"]
