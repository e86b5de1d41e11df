"""From a config to a finished run: building, the loop, its files."""

from tacit.runs.build import UserParts, from_config
from tacit.runs.config import Config
from tacit.runs.evaluator import Evaluator
from tacit.runs.observer import Observer
from tacit.runs.privacy_meter import PrivacyMeter
from tacit.runs.progress import ProgressBar
from tacit.runs.run import Run
from tacit.runs.run_folder import RunFolder
from tacit.runs.train import train

__all__ = [
    "Config",
    "Evaluator",
    "Observer",
    "PrivacyMeter",
    "ProgressBar",
    "Run",
    "RunFolder",
    "UserParts",
    "from_config",
    "train",
]
