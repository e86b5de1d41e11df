"""The result of a sweep: ranking, judged records, saved runs, resuming."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import torch

import tacit
from tacit.errors import TacitError
from tacit.runs import Config, from_config
from tacit.sweeps import Judge, sweep
from tests.sweeps.cases import GRID, SMALL


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return sweep(SMALL, GRID, seeds=2, out=tmp_path_factory.mktemp("sweep") / "deep/out")


def test_one_row_per_setting_the_best_first(result):
    table = result.table
    assert list(table.columns) == ["lr", "clip", "accuracy", "accuracy_deviation", "seeds", "epsilon", "error"]
    assert table["accuracy"].is_monotonic_decreasing
    assert (table["seeds"] == 2).all()
    assert (table["accuracy_deviation"] >= 0).all()
    assert table["epsilon"].between(2.9, 3.0).all()
    assert result.markdown.splitlines()[2].startswith(f"| 1 (best) | {table['lr'][0]:g} | {table['clip'][0]:g} | ")
    assert " ± " in result.markdown
    assert result.best.algorithm.parameters["lr"] == table["lr"][0]


def test_results_are_those_of_the_run_on_the_two_halves_of_the_test_records(result):
    """An independent evaluation: the same run, with each half as its test records."""
    judged, reported = Judge().records(result.best)
    assert abs(len(judged[1]) - len(reported[1])) <= 1
    test = tacit.datasets.build("digits")
    both = torch.cat([judged[0], reported[0]])
    assert torch.equal(both.sort(0).values, test.test_x.sort(0).values)
    for (x, y), expected in ((judged, result.rows[0].mean), (reported, result.reported[0])):
        runs = [from_config(result.best.model_copy(update={"seed": seed})).go() for seed in (0, 1)]
        hits = [run.trained().predict(x.numpy()) == y.numpy() for run in runs]
        assert sum(hit.mean() for hit in hits) / 2 == pytest.approx(expected)


def test_files_of_the_folder(result):
    assert json.loads((result.out / "results.json").read_text()) == json.loads(json.dumps(result.as_dict()))
    assert (result.out / "table.md").read_text() == result.markdown + "\n"
    best = (result.out / "best.toml").read_text()
    assert Config.parse(tomllib.loads(best)) == result.best
    assert f"# {result.privacy.sentence()}" in best
    cells = list((result.out / "cells").glob("*.json"))
    assert len(cells) == 8
    assert all(cell.stat().st_size < 30_000 for cell in cells)


def test_finished_runs_are_not_repeated_and_changed_ones_are(result, monkeypatch, capsys):
    again = sweep(SMALL, GRID, seeds=2, out=result.out, metric="loss")
    assert "8 of 8 runs are already finished" in capsys.readouterr().err
    assert again.table["loss"].is_monotonic_increasing
    next((result.out / "cells").glob("*.json")).write_text('{"judged"')
    assert sweep(SMALL, GRID, seeds=2, out=result.out).table.equals(result.table)
    assert "7 of 8 runs are already finished" in capsys.readouterr().err
    sweep({**SMALL, "rounds": 2}, GRID, out=result.out)
    assert "already finished" not in capsys.readouterr().err
    sweep(SMALL, GRID, seeds=2, judge="test", out=result.out)
    assert "already finished" not in capsys.readouterr().err


def test_a_changed_data_file_gives_new_runs(tmp_path, capsys):
    path = tmp_path / "records.csv"
    config = {**SMALL, "data": {"name": "csv", "path": str(path), "labels": [0, 1]}, "batch": {"size": 4}}
    lines = [f"{i % 7},{i % 5},{i % 2}" for i in range(200)]
    path.write_text("\n".join(lines))
    sweep(config, {"lr": [0.1]}, out=tmp_path / "out")
    path.write_text("\n".join([*lines, "3,3,1", "2,2,0"]))
    sweep(config, {"lr": [0.1]}, out=tmp_path / "out")
    assert "already finished" not in capsys.readouterr().err


def test_settings_with_different_test_records_are_refused(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("\n".join(f"{i % 7},{i % 5},{i % 2}" for i in range(200)))
    config = {**SMALL, "data": {"name": "csv", "path": str(path), "labels": [0, 1]}, "batch": {"size": 4}}
    with pytest.raises(TacitError, match=r"different splits of the file \(content and index\)"):
        sweep(config, {"batch.sampling": ["poisson", "permutation"]})


def test_judging_on_public_records(tmp_path):
    public = tmp_path / "public.csv"
    public.write_text("\n".join(f"{i % 7},{i % 5},{i % 2}" for i in range(50)))
    private = tmp_path / "private.csv"
    private.write_text("\n".join(f"{i % 6},{i % 5},{i % 2}" for i in range(200)))
    data = {"name": "csv", "path": str(private), "labels": [0, 1]}
    config = {**SMALL, "data": data, "batch": {"size": 4}}
    found = sweep(config, {"lr": [0.1, 0.5]}, public=public)
    assert found.judge == "public"
    assert f"judged on 50 records of {public}, which were declared public" in found.judged
    judged, reported = Judge("public", str(public)).records(Config.parse(config))
    assert (len(judged[1]), found.metric.name) == (50, "accuracy")
    assert torch.equal(reported[1], Judge("test").records(Config.parse(config)).judged[1])
    with pytest.raises(TacitError, match="the file of the private records"):
        sweep(config, {"lr": [0.1]}, public=private)
    with pytest.raises(TacitError, match="do not fit"):
        sweep(config, {"lr": [0.1]}, public="digits")
    with pytest.raises(TacitError, match="names the private data"):
        sweep(SMALL, {"lr": [0.1]}, public="digits")
    with pytest.raises(TacitError, match=r'unknown public data set or file "digit"; did you mean "digits"'):
        sweep(SMALL, {"lr": [0.1]}, public="digit")


def test_judging_on_the_test_records_is_stated_as_optimistic():
    found = sweep(SMALL, {"lr": [0.5]}, judge="test")
    assert found.reported[0] == found.rows[0].mean
    assert "all 360 test records. The result of the best setting is optimistic" in found.judged
    assert "not protected by ε" in found.judged


def test_a_setting_that_fails_is_last():
    free = {**SMALL, "algorithm": {"name": "sgp"}, "privacy": {"delta": 1e-3}}
    found = sweep(free, {"lr": [1e30, 0.1], "model.weight_decay": [1.0]})
    assert found.rows[0].point["lr"] == 0.1
    assert found.rows[1].mean is None
    assert found.rows[1].error
    assert "failed" in found.markdown
    assert found.privacy.total is None
    assert "no total is guaranteed, because" in found.privacy.sentence()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "accurcy"}, 'did you mean "accuracy"'),
        ({"metric": "rmse"}, "rmse does not apply to this task"),
        ({"judge": "tests"}, 'unknown way to judge "tests"'),
        ({"judge": "public"}, "judge = public needs public"),
        ({"judge": "test", "public": "w8a"}, "public is for judge = public, got judge = test"),
        ({"seeds": 0}, "^seeds must be at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"settings": "batch.size=5"}, 'must be a dict or a list of texts "key=value", got one text'),
        ({"settings": ["batch.size"]}, 'a setting must be key=value, such as rounds=100 .* got "batch.size"'),
        ({"settings": {"batch": {"size": 5000}}}, "lr 0.1, seed 0: .*5000"),
        ({"settings": ["batch.size=5000"]}, "lr 0.1, seed 0: .*5000"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_run(options, message, tmp_path):
    with pytest.raises(TacitError, match=message):
        sweep(SMALL, {"lr": [0.1]}, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_no_message_names_only_an_option_of_the_command():
    """`tacit.sweep` and `tacit.compare` are used in Python too: an option stands beside its Python form."""
    for folder in ("sweeps", "comparisons"):
        for path in (Path(tacit.__file__).parent / folder).glob("*.py"):
            for line in path.read_text().splitlines():
                assert not re.search(r"""["' ]--[a-z]""", line) or "Python:" in line, f"{path.name}: {line}"
