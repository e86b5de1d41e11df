"""What to expect of a run before it spends any ε: accuracy that was measured elsewhere, noise, traffic and time."""

from tacit.plans.measured import Expectation, Measurement, expected_accuracy, measurements
from tacit.plans.plan import MethodPlan, TrainingPlan, plan_config, plan_training

__all__ = [
    "Expectation",
    "Measurement",
    "MethodPlan",
    "TrainingPlan",
    "expected_accuracy",
    "measurements",
    "plan_config",
    "plan_training",
]
