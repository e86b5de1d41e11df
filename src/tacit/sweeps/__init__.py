"""Sweeps: one config with many settings, judged on records that no node trains with; the cost of tuning is stated."""

from tacit.sweeps.charging import SweepPrivacy
from tacit.sweeps.judging import JUDGE_MODES, Judge, JudgeMode
from tacit.sweeps.results import SweepResult, SweepRow
from tacit.sweeps.search import sweep

__all__ = ["JUDGE_MODES", "Judge", "JudgeMode", "SweepPrivacy", "SweepResult", "SweepRow", "sweep"]
