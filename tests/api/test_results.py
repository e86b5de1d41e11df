"""The results of a run, as a user's script reads them."""

import subprocess
import sys

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


@pytest.fixture
def axes_of():
    """Plots, whose figures are closed at the end."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield lambda run, **arguments: run.plot(**arguments)
    pyplot.close("all")


def test_a_plot_shows_the_main_metric_the_trivial_predictor_and_the_guarantee(run, loaded, axes_of):
    for each in (run, loaded):
        axes = axes_of(each)
        curve, trivial = axes.lines
        assert curve.get_xdata().tolist() == run.history["round"].tolist()
        assert curve.get_ydata().tolist() == pytest.approx((100 * run.history["accuracy"]).tolist())
        assert trivial.get_ydata()[0] == pytest.approx(100 * run.utility.trivial["accuracy"])
        assert trivial.get_linestyle() == "--"
        assert axes.get_ylabel() == "Test accuracy (%)"
        assert axes.get_title("left").startswith("Guaranteed (simulated) ε = ")


@pytest.mark.parametrize(
    ("x", "column", "scale", "label"),
    [
        ("bytes", "bytes", 1e-6, "Data sent (MB)"),
        ("epsilon", "guaranteed", 1.0, "Guaranteed (simulated) ε spent"),
    ],
)
def test_a_plot_has_other_axes(run, axes_of, x, column, scale, label):
    axes = axes_of(run, x=x, metric="loss")
    assert axes.lines[0].get_xdata().tolist() == pytest.approx((scale * run.history[column]).tolist())
    assert axes.lines[0].get_ydata().tolist() == run.history["loss"].tolist()
    assert (axes.get_xlabel(), axes.get_ylabel()) == (label, "Test loss")


def test_two_runs_in_one_plot_have_different_styles_and_both_guarantees(run, axes_of):
    axes = axes_of(run, label="one")
    both = axes_of(run, label="two", ax=axes)
    assert both is axes
    one, trivial, two = axes.lines
    assert (one.get_color(), one.get_linestyle()) != (two.get_color(), two.get_linestyle())
    assert trivial.get_label() == "trivial predictor"
    assert [line.split(":")[0] for line in axes.get_title("left").splitlines() if ":" in line] == ["one", "two"]


def test_a_plot_fits_a_column_and_is_a_vector_graphic(run, axes_of, tmp_path):
    figure = axes_of(run).figure
    assert figure.get_size_inches()[0] == pytest.approx(3.4)
    figure.savefig(tmp_path / "run.pdf")
    assert (tmp_path / "run.pdf").read_bytes().startswith(b"%PDF")


def test_wrong_arguments_of_a_plot_are_named(run, axes_of):
    with pytest.raises(tacit.TacitError, match='unknown x axis "rounds"; did you mean "round"'):
        axes_of(run, x="rounds")
    with pytest.raises(tacit.TacitError, match='unknown metric of this history "acuracy"; did you mean "accuracy"'):
        axes_of(run, metric="acuracy")
    reference = tacit.train(algorithm="sgp", nodes=4, rounds=2)
    assert axes_of(reference).get_title("left") == "No privacy is guaranteed"
    with pytest.raises(tacit.TacitError, match='x = "epsilon" needs a guarantee'):
        axes_of(reference, x="epsilon")


def test_without_matplotlib_the_error_names_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tacit.TacitError, match=r'matplotlib is not installed: pip install "tacit\[plots\]"'):
        run.plot()


def test_importing_tacit_imports_neither_pandas_nor_matplotlib():
    code = "import sys, tacit, tacit.runs; print(sorted({'pandas', 'matplotlib'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
