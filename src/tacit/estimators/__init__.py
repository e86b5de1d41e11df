"""Estimators for scikit-learn: private decentralised training with `fit` and `predict`."""

from tacit.estimators.account import PrivacyAccount
from tacit.estimators.classifier import TacitClassifier
from tacit.estimators.regressor import TacitRegressor

__all__ = ["PrivacyAccount", "TacitClassifier", "TacitRegressor"]
