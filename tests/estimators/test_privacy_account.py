"""The composed ε of several fits."""

import copy
import pickle

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from tacit import PrivacyAccount, TacitClassifier, TacitError
from tacit.privacy import joint_epsilon, rounded_up
from tacit.runs import Run

RNG = np.random.default_rng(2)
X = RNG.normal(size=(200, 2))
Y = (X[:, 0] > 0).astype(int)
QUICK = {"classes": [0, 1], "rounds": 5, "epsilon": 1.0, "random_state": 0}


def refused(words):
    return pytest.raises(TacitError, match=words)


@pytest.fixture(params=["memory", "folder"])
def account(request, tmp_path):
    return PrivacyAccount(tmp_path / "fits" if request.param == "folder" else None)


def test_a_grid_search_has_the_composed_epsilon_of_all_its_fits(account, monkeypatch):
    ledgers, go = [], Run.go

    def noted(run):
        ledgers.append(run.task.ledger)
        return go(run)

    monkeypatch.setattr(Run, "go", noted)
    model = TacitClassifier(**QUICK, account=account)
    search = GridSearchCV(model, {"clip": [0.5, 1.0]}, cv=KFold(2)).fit(X, Y)
    total = account.total()
    assert account.fits == len(ledgers) == 5
    assert search.best_estimator_.account is account
    assert total.guaranteed == pytest.approx(joint_epsilon([list(each.releases()) for each in ledgers], 1e-5), rel=1e-9)

    accountant = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    for ledger in ledgers:
        first, *others = ledger.releases()
        assert all((each.rates == first.rates).all() and each.multipliers == first.multipliers for each in others)
        event = dp.GaussianDpEvent(first.multipliers[0])
        accountant.compose(dp.PoissonSampledDpEvent(first.rates[0], event), len(ledger))
    assert total.guaranteed == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)
    assert search.best_estimator_.privacy_.guaranteed < total.guaranteed < 5.0


def test_what_a_total_states():
    account = PrivacyAccount()
    model = TacitClassifier(**QUICK, account=account).fit(X, Y)
    assert account.total().guaranteed == pytest.approx(model.privacy_.guaranteed, rel=1e-9)
    assert account.total().assumes is None
    clone(model).fit(X[:150], Y[:150])
    total = account.total()
    assert total.covers_models
    words = total.sentence()
    assert words.startswith("Guaranteed (simulated) ε = ")
    assert "2 fits are composed as if every record took part in each of them." in words
    assert "Assumption: no record decides which other records a fit uses." in words
    assert "ε covers neither such scores nor a choice of hyperparameters by them." in words
    assert words.count("SIMULATION") == 1
    assert account.total(1e-3).guaranteed < total.guaranteed


def test_fits_without_a_guarantee_leave_no_total(account):
    TacitClassifier(**QUICK, account=account).fit(X, Y)
    with pytest.warns(UserWarning, match="learnt"):
        TacitClassifier(**QUICK | {"classes": None}, account=account).fit(X, Y)
    assert account.total().guaranteed is None
    assert account.total().reason == "the classes were learnt from the records before the run, without noise"


def test_fits_with_different_relations_leave_no_total(account):
    TacitClassifier(**QUICK, account=account).fit(X, Y)
    TacitClassifier(**QUICK, sampling="without-replacement", account=account).fit(X, Y)
    assert "the runs protect different things" in account.total().reason


def test_different_deltas_need_a_choice(account):
    for delta in (1e-5, 1e-4):
        TacitClassifier(**QUICK, delta=delta, account=account).fit(X, Y)
    with refused(r"different δ \(1e-05, 0.0001\)"):
        account.total()
    assert account.total(1e-4).delta == 1e-4


def test_a_fit_that_fails_or_is_interrupted_counts(account, monkeypatch):
    done, real = [], Run._evaluate_if_due

    def fail(run):
        if run.t == 3:
            raise done.pop()
        real(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_evaluate_if_due", fail)
        for error in (MemoryError(), KeyboardInterrupt()):
            done.append(error)
            with pytest.raises(type(error)):
                TacitClassifier(**QUICK, account=account).fit(X, Y)
    assert account.fits == 2
    assert min(map(len, account.releases)) == 3
    assert account.total().guaranteed > 0


def test_a_fit_that_has_not_ended_leaves_no_total(account):
    model = TacitClassifier(**QUICK, account=account).fit(X, Y)
    account.begin("killed", model.privacy_)
    assert account.fits == 2
    assert "has not ended" in account.total().reason


def test_fits_in_other_processes_are_in_the_folder_or_refused(tmp_path):
    shared, alone = PrivacyAccount(tmp_path), PrivacyAccount()
    model = TacitClassifier(**QUICK, account=shared).fit(X, Y)
    pickle.loads(pickle.dumps(model)).fit(X, Y)
    assert shared.fits == 2
    there = pickle.loads(pickle.dumps(clone(model).set_params(account=alone).fit(X, Y)))
    assert there.account.fits == 1
    assert np.array_equal(there.predict(X), model.predict(X))
    with refused(r"copy of one in another process.*PrivacyAccount\(folder\), or n_jobs=1"):
        there.fit(X, Y)
    assert alone.fits == 1


def test_copies_of_parameters_share_the_account():
    account = PrivacyAccount()
    assert clone(TacitClassifier(account=account)).account is copy.deepcopy(account) is account


def test_errors(tmp_path):
    with refused("The account has no fits"):
        PrivacyAccount().total()
    with refused("must be a tacit.PrivacyAccount, got str"):
        TacitClassifier(**QUICK, account="mine").fit(X, Y)
    (tmp_path / "other.json").write_text("{}")
    with refused("other.json is not a fit"):
        PrivacyAccount(tmp_path).total()
    (tmp_path / "file").write_text("")
    with refused("cannot create"):
        TacitClassifier(**QUICK, account=PrivacyAccount(tmp_path / "file")).fit(X, Y)


def test_an_account_shows_its_fits_and_their_epsilon(tmp_path):
    account = PrivacyAccount(tmp_path / "fits")
    assert repr(account).endswith("fits') with no fits")
    for _ in range(2):
        TacitClassifier(**QUICK, account=account).fit(X, Y)
    shown = rounded_up(account.total().guaranteed)
    assert f"with 2 fits, guaranteed (simulated) ε = {shown}, δ = 1e-05" in repr(account)
    TacitClassifier(**QUICK | {"delta": 1e-6}, account=account).fit(X, Y)
    assert "no total: The fits have different δ" in repr(account)
