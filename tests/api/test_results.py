"""The results of a run, as a user's script reads them."""

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import tacit
from tacit.runs import history_frame

SETTINGS = {"algorithm": "const-d2p", "nodes": 4, "rounds": 6, "evaluate_every": 2, "epsilon": 2.0, "delta": 1e-3}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tacit.train(**SETTINGS, out=tmp_path_factory.mktemp("results") / "run")


@pytest.fixture(scope="module")
def loaded(run):
    return tacit.load(run.out)


def test_the_history_is_a_data_frame_of_numbers(run):
    history = run.history
    assert isinstance(history, pd.DataFrame)
    assert history["round"].tolist() == [0, 2, 4, 6]
    assert history["accuracy"].between(0, 1).all()
    assert history["guaranteed"].is_monotonic_increasing
    assert set(history.dtypes.astype(str)) <= {"int64", "float64"}


def test_a_loaded_run_has_the_same_history(run, loaded):
    assert_frame_equal(run.history, loaded.history)
    assert loaded.evaluations == run.evaluations


def test_changes_of_the_frame_do_not_change_the_run(run):
    frame = run.history
    frame["accuracy"] = -1.0
    assert run.history.loc[0, "accuracy"] >= 0


def test_a_value_that_is_not_known_is_nan_in_memory_and_in_the_folder(tmp_path):
    reference = tacit.train(algorithm="sgp", nodes=4, rounds=2, out=tmp_path / "run")  # has no guarantee
    assert reference.history["guaranteed"].isna().any()
    assert reference.history["claimed"].isna().all()
    assert_frame_equal(reference.history, tacit.load(tmp_path / "run").history)


def test_a_run_without_evaluations_has_an_empty_history():
    assert history_frame([]).empty
    assert history_frame([]).columns.tolist() == ["round"]


def test_a_loaded_run_has_the_same_utility(run, loaded):
    assert loaded.utility == run.utility
    assert loaded.utility.headline.startswith("accuracy ")
    assert "(trivial predictor " in loaded.utility.headline
