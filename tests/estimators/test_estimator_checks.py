"""The estimators pass the checks of scikit-learn, with noise and without exemptions (docs/scikit-learn.md)."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tacit import TacitClassifier, TacitRegressor

QUICK = {"rounds": 30, "lr": 0.5, "epsilon": 4.0, "random_state": 0}


@pytest.mark.filterwarnings("ignore:No privacy is guaranteed:UserWarning")
@parametrize_with_checks([TacitClassifier(**QUICK), TacitRegressor(**QUICK)])
def test_scikit_learn_check(estimator, check):
    check(estimator)
    assert estimator.get_params()["rounds"] == QUICK["rounds"]  # a check must not change the estimator that it is given
