"""`tacit.compare`, its tables and its figure, as a user's script calls them."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import tacit
import tacit.comparisons
from tacit.algorithms import algorithms
from tacit.reports import RunRecord
from tacit.reports.comparison_page import mean_record
from tacit.runs.metrics import all_metrics
from tacit.tables import escape_latex

SMALL = {"nodes": 4, "rounds": 6}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    return tacit.compare(["dyn-d2p", "const-d2p", "sgp"], epsilon=2.0, delta=1e-3, seeds=2, out=out, **SMALL)


def test_importing_the_package_of_comparisons_leaves_the_function():
    assert callable(tacit.compare)
    assert tacit.comparisons.Comparison.__module__ == "tacit.comparisons.comparison"


def test_the_frame_has_one_row_per_method_with_mean_and_deviation(table):
    assert table.index.tolist() == ["dyn-d2p", "const-d2p", "sgp"]
    private = table.loc[["dyn-d2p", "const-d2p"]]
    assert private["epsilon_guaranteed"].between(1.9, 2.0).all()
    assert (table["simulated"] & (table["seeds"] == 2) & (table["rounds"] == 6)).all()
    assert math.isnan(table.loc["sgp", "epsilon_guaranteed"])
    for label, row in table.iterrows():
        runs = [tacit.load(f"{table.attrs['out']}/{label}/seed-{seed}") for seed in (0, 1)]
        last = np.array([run.history["accuracy"].iloc[-1] for run in runs])
        assert row["accuracy"] == pytest.approx(last.mean())
        assert row["accuracy_std"] == pytest.approx(last.std(ddof=1))


def test_the_statement_says_that_it_is_a_simulation(table):
    assert "Means and standard deviations over 2 seeds." in table.attrs["statement"]
    assert "Guaranteed (simulated) ε at δ = 0.001" in table.attrs["statement"]
    assert "these runs protect nobody" in table.attrs["statement"]
    assert table.attrs["privacy"]["dyn-d2p"].startswith("Guaranteed (simulated) ε = ")
    assert table.attrs["privacy"]["sgp"].startswith("No privacy is guaranteed")


def test_the_note_names_hyperparameters_that_differ(table):
    assert "lr is 0.5 (dyn-d2p) and 0.1 (const-d2p, sgp)" in table.attrs["note"]
    assert "differ" not in table.attrs["statement"]
    same = tacit.compare(["const-d2p", "sgp"], epsilon=2.0, seeds=1, settings={"algorithm.lr": 0.5}, **SMALL)
    assert same.attrs["note"] is None


def test_the_command_has_the_same_numbers_and_prints_every_format(table, request):
    command = request.getfixturevalue("tacit")
    arguments = ["compare", "dyn-d2p", "const-d2p", "sgp", "--epsilon", "2", "--delta", "1e-3", "--seeds", "2"]
    arguments += ["--set", "graph.nodes=4", "--set", "rounds=6", "--jobs", "1", "--out", table.attrs["out"]]
    found = json.loads(command(*arguments, "--json").out)
    for row in found["methods"]:
        assert row["accuracy"] == [table.loc[row["method"], "accuracy"], table.loc[row["method"], "accuracy_std"]]
    for name in ("latex", "markdown", "csv"):
        assert command(*arguments, "--format", name).out == getattr(tacit.tables, name)(table) + "\n"
    refused = command(*arguments, "--format", "csv", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "--json and --format csv are two formats: choose one" in refused.err


def test_own_objects_are_compared_and_finished_runs_are_used_again(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 5)).astype(np.float32), rng.integers(0, 2, 200)
    data = tacit.Dataset.from_arrays(x, y, labels=[0, 1], test=(x[:20], y[:20]))
    methods = {"small steps": algorithms["const-d2p"](lr=0.1), "large steps": algorithms["const-d2p"](lr=1.0)}
    settings = {"data": data, "model": torch.nn.Linear(5, 2), "graph": nx.cycle_graph(3), "rounds": 4, "seeds": 1}
    settings |= {"epsilon": 4.0, "delta": 1e-2, "out": tmp_path / "out", "progress": True}
    first = tacit.compare(methods, **settings)
    assert first.index.tolist() == ["small steps", "large steps"]
    assert first["epsilon_guaranteed"].between(3.9, 4.0).all()
    assert first.loc["small steps", "loss"] != first.loc["large steps", "loss"]
    assert first["loss_std"].isna().all()  # of one seed
    assert capsys.readouterr().err.count("steps/seed-0: accuracy") == 2
    assert tacit.compare(methods, **settings).equals(first)
    assert capsys.readouterr().err.startswith("2 of 2 runs are already finished")
    other = tacit.Dataset.from_arrays(x + 1, y, labels=[0, 1], test=(x[:20], y[:20]))
    with pytest.raises(tacit.TacitError, match="training records differ from those of the run"):
        tacit.compare(methods, **{**settings, "data": other})


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"algorithm.lr": 0.2, "measure": ["node_accuracy"]}
    found = tacit.compare(["const-d2p", "sgp"], epsilon=2.0, delta=1e-3, seeds=1, settings=settings, **SMALL)
    assert list(tmp_path.iterdir()) == []
    assert found.attrs["out"] is None
    assert found["node_accuracy"].between(0, 1).all()
    assert "±" not in tacit.tables.markdown(found)


@pytest.mark.parametrize(
    ("methods", "arguments", "message"),
    [
        (["dyn-d2p"], {}, "two or more"),
        (["dyn-d2p", 3], {}, "a method must be a config file, a name or an Algorithm, got int"),
        ({"a/b": "dyn-d2p", "c": "sgp"}, {}, 'the label of a method contains letters, .* got "a/b"'),
        (["dyn-d2p", "sgp"], {"settings": {"rouns": 3}}, 'unknown key .* "rouns"; did you mean "rounds"'),
        (["dyn-d2p", "sgp"], {"seeds": 0}, r"seeds must be .* at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(methods, arguments, message):
    with pytest.raises(tacit.TacitError, match=message):
        tacit.compare(methods, epsilon=2.0, **arguments)


def test_objects_that_cannot_be_sent_to_processes_are_refused():
    model = torch.nn.Linear(64, 10)
    model.extra = lambda: None
    with pytest.raises(tacit.TacitError, match="cannot be pickled"):
        tacit.compare(["dyn-d2p", "sgp"], epsilon=2.0, model=model, jobs=2, **SMALL)


def test_latex_has_deviations_bold_means_and_both_epsilons(table):
    text = tacit.tables.latex(table, caption="100 % of_all", label="tab:all")
    assert r"\caption{100 \% of\_all}" in text
    assert r"\label{tab:all}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {row.count(" & ") for row in rows} == {len(re.search(r"tabular}{(\w+)}", text)[1]) - 1}
    assert "guaranteed (simulated) $\\varepsilon$ & claimed $\\varepsilon$ & accuracy (\\%)" in rows[0]
    private = table.drop(index="sgp")["accuracy"]
    best = f"{100 * private.max():.2f} $\\pm$"
    bold = [row for row in rows if "\\textbf{" in row.split(" & ")[4]]
    assert len(bold) == 1
    assert f"\\textbf{{{best}" in bold[0]
    assert text.isascii()


def test_every_title_of_the_package_is_ascii_in_latex():
    titles = [algorithms[name].title for name in algorithms if isinstance(getattr(algorithms[name], "title", 0), str)]
    labels = [text for each in all_metrics() for text in (each.short_label, each.label)]
    special = ["a\\b", "{x}", "5 % & $2", "a_b^c~d#", "[0]", "x̄ < y | z", "Dyn[C]-D²P, Dyn[μ]-D²P"]
    for text in [*titles, *labels, *special]:
        escaped = escape_latex(text)
        assert escaped.isascii(), text
        assert (escaped.count("$") - escaped.count(r"\$")) % 2 == 0, text
        assert not re.search(r"(?<!\\)[%&#_]", escaped), text
    assert escape_latex("x̄_1 \\ {2}") == r"$\bar{x}$\_1 \textbackslash{} \{2\}"


@pytest.mark.parametrize(
    ("methods", "given", "words"),
    [
        ("dyn-d2p", {}, 'needs a list of two or more methods, .* got "dyn-d2p"'),
        ("dyn-d2p", {"data": (np.eye(4), [0, 1, 0, 1])}, "needs a list of two or more methods"),
        (algorithms.build("sgp"), {}, "needs a list of two or more methods"),
        (["sgp", "const-d2p"], {"seeds": [0, 1]}, r"seeds must be the number of runs per method, .* got \[0, 1\]"),
        (["sgp", "const-d2p"], {"seed": 1}, 'unknown argument of tacit.compare "seed"; did you mean "seeds"'),
        (["sgp", "const-d2p"], {"lr": 1.0}, r'lr is a hyperparameter: use settings=\{"algorithm.lr": ...\}'),
        (["sgp", "const-d2p"], {"labels": [0, 1]}, r"labels= is for records given as data=\(x, y\)"),
        (["sgp", "const-d2p"], {"data": {"x": 1}}, r"data must be a name, .* or a pair \(x, y\), got dict"),
        (["sgp", "const-d2p"], {"settings": {"rounds": object()}}, "rounds must be a number, .* got object"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(methods, given, words):
    with pytest.raises(tacit.TacitError, match=words):
        tacit.compare(methods, epsilon=2.0, **given)


@pytest.mark.parametrize("declared", [{"labels": [0, 1]}, {"target": tacit.Target("number", range=(0, 1))}])
def test_arrays_with_declared_targets_are_compared(declared):
    x = np.random.default_rng(0).normal(size=(200, 2))
    data = (x, (x[:, 0] > 0).astype(int))
    frame = tacit.compare(["const-d2p", "sgp"], epsilon=2.0, delta=1e-3, seeds=1, data=data, **declared, **SMALL)
    assert frame.loc["const-d2p", "epsilon_guaranteed"] <= 2.0
    assert ("accuracy" in frame) == ("labels" in declared)


def test_markdown_and_csv_contain_every_method(table, tmp_path):
    text = tacit.tables.markdown(table.drop(columns=["loss", "loss_std"]))
    head = text.splitlines()[0].strip("| ").split(" | ")
    assert head[:5] == ["method", "algorithm", "guaranteed (simulated) ε", "claimed ε", "accuracy (%)"]
    assert "loss" not in head
    assert text.count("**") == 2
    assert text.endswith(table.attrs["statement"])
    path = tacit.tables.write(table, tmp_path / "table.csv")
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [float(row["accuracy_std"]) for row in rows] == table["accuracy_std"].tolist()
    assert [row["epsilon_guaranteed"] == "" for row in rows] == [False, False, True]
    with pytest.raises(tacit.TacitError, match=r"a table is written to \.tex, \.md or \.csv, got table\.html"):
        tacit.tables.write(table, "table.html")
    with pytest.raises(tacit.TacitError, match="it has no column algorithm"):
        tacit.tables.latex(table[["accuracy"]])


def test_the_figure_has_means_with_bands(table):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = tacit.plot_comparison(table)
    *curves, trivial = axes.lines
    assert [curve.get_label().split(" (")[0] for curve in curves] == ["Dyn-D²P", "Const-D²P", "SGP"]
    assert [curve.get_ydata()[-1] for curve in curves] == pytest.approx((100 * table["accuracy"]).tolist())
    assert len(axes.collections) == 3
    band = axes.collections[0].get_paths()[0].vertices
    at_end = band[band[:, 0] == 6, 1]
    mean, deviation = 100 * table["accuracy"].iloc[0], 100 * table["accuracy_std"].iloc[0]
    assert (at_end.min(), at_end.max()) == pytest.approx((mean - deviation, mean + deviation))
    assert len({(curve.get_color(), curve.get_marker()) for curve in curves}) == 3
    assert trivial.get_label() == "trivial predictor"
    assert axes.get_title("left").startswith("ε: guaranteed (simulated), δ = 0.001")
    assert len(tacit.plot_comparison(table, x="epsilon").lines) == 3  # the method without a guarantee has no ε
    pyplot.close("all")


def test_the_page_shows_means_over_the_seeds(table):
    out = Path(table.attrs["out"])
    html = (out / "report.html").read_text()
    assert "<h1>3 methods compared, means over 2 seeds</h1>" in html
    mean, deviation = table.loc["dyn-d2p", "accuracy"], table.loc["dyn-d2p", "accuracy_std"]
    assert f"<td>{100 * mean:.2f} ± {100 * deviation:.2f} %</td>" in html
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)[1])
    bands = [trace for trace in figures["accuracy"]["data"] if trace.get("fill") == "toself"]
    curves = [trace for trace in figures["accuracy"]["data"] if "fill" not in trace]
    assert [trace["meta"] for trace in bands] == [trace["meta"] for trace in curves] == [0, 1, 2]
    assert curves[0]["y"][-1] == pytest.approx(100 * mean)
    assert max(bands[0]["y"][: len(curves[0]["y"])][-1:]) == pytest.approx(100 * (mean + deviation))


def test_the_mean_of_runs_has_the_largest_epsilon_and_names_all_seeds(table):
    runs = [RunRecord.read(Path(table.attrs["out"]) / "dyn-d2p" / f"seed-{seed}") for seed in (0, 1)]
    larger = replace(runs[1], privacy=replace(runs[1].privacy, guaranteed=9.0))
    for order in ([runs[0], larger], [larger, runs[0]]):
        mean = mean_record("dyn-d2p", order)
        assert mean.privacy.guaranteed == 9.0
        assert sorted(mean.config["seed"].split(", ")) == ["0", "1"]
    unprotected = replace(runs[0], privacy=replace(runs[0].privacy, guaranteed=None, reason="there is no noise"))
    assert mean_record("dyn-d2p", [unprotected, runs[1]]).privacy.guaranteed is None
    shorter = replace(runs[0], evaluations=runs[0].evaluations[:-2])
    assert len(mean_record("dyn-d2p", [shorter, runs[1]]).evaluations) == len(shorter.evaluations)
