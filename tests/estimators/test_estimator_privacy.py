"""What an estimator states: only declared facts carry a guarantee, and only secret noise protects."""

import numpy as np
import pytest

from tacit import BudgetExceeded, TacitClassifier, TacitRegressor, verify
from tacit.privacy import RecordsLedger

RNG = np.random.default_rng(1)
X = RNG.normal(size=(120, 2))
Y = (X[:, 0] > 0).astype(int)
QUICK = {"rounds": 3, "epsilon": 2.0}
LEARNT = "No privacy is guaranteed: .* learnt from y"


def test_declared_classes_have_a_guarantee():
    fitted = TacitClassifier(**QUICK, classes=[0, 1], random_state=0).fit(X, Y)
    assert 1.9 < fitted.privacy_.guaranteed <= 2.0
    assert fitted.privacy_ == fitted.run_.privacy


@pytest.mark.parametrize(
    ("estimator", "y", "reason"),
    [
        (TacitClassifier, Y, "the classes were learnt from the records before the run, without noise"),
        (TacitRegressor, X[:, 0], "the range of the targets was learnt from the records before the run, without noise"),
    ],
)
@pytest.mark.parametrize("seed", [0, None], ids=["simulated", "secret"])
def test_learnt_facts_have_no_guarantee(estimator, y, reason, seed, tmp_path):
    model = estimator(**QUICK, random_state=seed, out=tmp_path / "run")
    with pytest.warns(UserWarning, match=LEARNT):
        model.fit(X, y)
    assert model.privacy_.guaranteed is None
    assert model.privacy_.reason == model.run_.privacy.reason == reason
    assert model.model_.description.privacy.guaranteed is None
    found = verify(tmp_path / "run")
    assert found.differences == ()
    assert found.guaranteed is None


def test_learnt_classes_leave_the_population_without_a_total():
    TacitClassifier(**QUICK, classes=[0, 1], population="ward").fit(X, Y)
    with pytest.warns(UserWarning, match=LEARNT):
        TacitClassifier(**QUICK, population="ward").fit(X, Y)
    later = TacitClassifier(**QUICK, classes=[0, 1], population="ward").fit(X, Y)
    assert later.privacy_.guaranteed <= 2.0
    assert later.privacy_.runs == 3
    assert later.privacy_.total is None
    assert "the classes were learnt" in later.privacy_.total_reason
    with pytest.warns(UserWarning, match=LEARNT), pytest.raises(BudgetExceeded, match="no total can be guaranteed"):
        TacitClassifier(**QUICK, population="other", population_budget=9.0).fit(X[:60], Y[:60])


def test_while_a_fit_with_learnt_classes_runs_no_total_is_known(monkeypatch):
    seen = []

    def stop(ledger, run, releases, reason):
        seen.append(ledger.find("ward")[1][0].releases)

    monkeypatch.setattr(RecordsLedger, "finish", stop)
    with pytest.warns(UserWarning, match=LEARNT):
        TacitClassifier(**QUICK, population="ward").fit(X, Y)
    assert seen == [None]


def test_without_a_seed_the_noise_is_secret():
    secret = TacitClassifier(**QUICK, classes=[0, 1]).fit(X, Y)
    assert not secret.privacy_.simulated
    assert secret.privacy_.sentence().startswith("Guaranteed ε = ")
    assert secret.privacy_.runs == 1
    assert not np.array_equal(secret.predict_proba(X), secret.fit(X, Y).predict_proba(X))
    assert secret.privacy_.runs == 2
    assert 2.0 < secret.privacy_.total < 4.0


def test_with_a_seed_the_fit_is_a_simulation():
    simulated = TacitClassifier(**QUICK, classes=[0, 1], random_state=5).fit(X, Y)
    words = simulated.privacy_.sentence()
    assert words.startswith("Guaranteed (simulated) ε = ")
    assert "SIMULATION: the noise is derived from seed 5, so this run protects nobody." in words
    assert simulated.privacy_.runs == 0


def test_noise_can_be_chosen():
    fitted = TacitClassifier(**QUICK, classes=[0, 1], noise="secret", random_state=5).fit(X, Y)
    assert not fitted.privacy_.simulated
    fitted = TacitClassifier(**QUICK, classes=[0, 1], noise="simulated").fit(X, Y)
    assert fitted.privacy_.simulated


def test_secret_noise_divides_rows_so_that_none_moves_another():
    settings = {**QUICK, "classes": [0, 1], "nodes": 3, "noise": "secret", "random_state": 0}
    full, less = (TacitClassifier(**settings).fit(x, y).run_.task.shards for x, y in [(X, Y), (X[1:], Y[1:])])
    moved = [np.setxor1d(a, b + 1) for a, b in zip(full, less, strict=True)]
    assert np.concatenate(moved).tolist() == [0]
    replaced = TacitClassifier(**settings, sampling="without-replacement").fit(X, Y)
    assert replaced.run_.config["sharding"]["name"] == "iid"
    assert replaced.privacy_.relation == "replace-one"
