"""Sweeps: one config with many settings, judged on records that no node trains with; the cost of tuning is stated."""

from tacit.sweeps.charging import SweepPrivacy
from tacit.sweeps.judging import JUDGE_MODES, Judge, JudgeMode
from tacit.sweeps.results import SweepResult, SweepRow
from tacit.sweeps.search import sweep
from tacit.sweeps.synthetic import synthetic_records
from tacit.sweeps.tuning import TuningResult, tune

__all__ = [
    "JUDGE_MODES",
    "Judge",
    "JudgeMode",
    "SweepPrivacy",
    "SweepResult",
    "SweepRow",
    "TuningResult",
    "sweep",
    "synthetic_records",
    "tune",
]
