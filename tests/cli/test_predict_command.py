"""The command `tacit predict`: one line per record, as in Python and as the exported model predicts."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import tacit as package
from tests.cli.conftest import setting
from tests.runs.cases import small
from tests.runs.trained import TARGETS, trained

COLUMNS = """
[data.columns]
age = {range = [0, 110]}
sex = {categories = ["F", "M"], missing = "indicator"}
crp = {range = [0, 500], scale = "log"}
visit = {date = ["2015-01-01", "2025-12-31"]}
notes = "drop"
patient_id = "drop"
"""
CONFIG = """
rounds = 5
[data]
name = "csv"
path = "records.csv"
[graph]
name = "ring"
nodes = 3
[batch]
size = 16
[privacy]
epsilon = 3.0
delta = 1e-3
[algorithm]
name = "dyn-d2p"
"""
TARGET_COLUMNS = {
    "class": 'outcome = {label = ["no", "yes"]}',
    "number": "stay = {target = [0, 60]}",
    "count": "falls = {count = [0, 20]}",
}
NAMES = {"class": "outcome", "number": "stay", "count": "falls"}


def patients(count, seed=0, target="class"):
    """A messy table: text, dates, missing cells, identifiers."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "patient_id": [f"{i:06d}" for i in range(count)],
            "age": draw.integers(0, 120, count).astype(str),
            "sex": draw.choice(["F", "M", "", "?"], count),
            "crp": [f"{value:.2f}" for value in draw.exponential(20, count)],
            "visit": pd.date_range("2016-01-01", periods=count).strftime("%Y-%m-%d"),
            "notes": ['said "hello, world"'] * count,
        }
    )
    frame.loc[::7, "age"] = ""
    values = draw.integers(0, 20, count)
    frame[NAMES[target]] = np.where(values > 10, "yes", "no") if target == "class" else values
    return frame


def finished(tacit, target="class", **settings):
    """The folder of a run on a table."""
    patients(120, target=target).to_csv("records.csv", index=False)
    Path("config.toml").write_text(CONFIG + COLUMNS + TARGET_COLUMNS[target])
    chosen = setting(*(f"{key}={value}" for key, value in settings.items()))
    ended = tacit("train", "config.toml", "--out", "run", *chosen)
    assert ended.code == 0, ended.err
    return Path("run")


@pytest.mark.parametrize("target", ["class", "number", "count"])
def test_command_python_and_onnx_agree_on_a_table(tacit, target):
    finished(tacit, target)
    new = patients(50, seed=1, target=target).drop(columns=NAMES[target])
    new.to_csv("new.csv", index=False)
    proba = ["--proba"] if target == "class" else []
    ended = tacit("predict", "run", "new.csv", "--out", "predictions.csv", "--keep", "patient_id", *proba)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == "Predictions of 50 records: predictions.csv"
    assert ended.out.splitlines()[1].startswith("Guaranteed (simulated) ε = ")
    found = pd.read_csv("predictions.csv", dtype={"patient_id": str})
    assert found["patient_id"].tolist() == new["patient_id"].tolist()
    loaded, name = package.load("run"), NAMES[target]
    assert tacit("export", "run", "--out", "model.onnx").code == 0
    session = onnxruntime.InferenceSession(Path("model.onnx").read_bytes())
    exported = session.run(None, {"features": loaded.prepare(new).numpy()})[0]
    assert json.loads(session.get_modelmeta().custom_metadata_map["tacit"])["table"]["columns"]["notes"] == "drop"
    if target == "class":
        assert list(found) == ["patient_id", "predicted_outcome", "probability_no", "probability_yes"]
        probabilities = found[["probability_no", "probability_yes"]].to_numpy()
        np.testing.assert_allclose(probabilities, loaded.predict_proba(new), atol=1e-5)
        np.testing.assert_allclose(probabilities, exported, atol=1e-5)
        assert found["predicted_outcome"].tolist() == loaded.predict(new).tolist()
    else:
        assert list(found) == ["patient_id", f"predicted_{name}"]
        np.testing.assert_allclose(found[f"predicted_{name}"], loaded.predict("new.csv"), rtol=1e-5)
        np.testing.assert_allclose(found[f"predicted_{name}"], exported, rtol=1e-5, atol=1e-5)


def test_records_in_other_forms_have_the_same_predictions(tacit):
    """Other separators, decimal marks, encodings, orders of columns, Parquet, chunks of any size."""
    finished(tacit)
    new = patients(40, seed=2)
    new.to_csv("new.csv", index=False)
    expected = tacit("predict", "run", "new.csv").out
    assert expected.splitlines()[0] == "predicted_outcome"
    assert len(expected.splitlines()) == 41
    comma = new.assign(crp=new["crp"].str.replace(".", ","))[list(reversed(new.columns))]
    comma.to_csv("comma.csv", index=False, sep=";", encoding="utf-16")
    new.to_parquet("new.parquet")
    new.to_csv("new.csv.gz", index=False)
    for name in ("comma.csv", "new.parquet", "new.csv.gz"):
        assert tacit("predict", "run", name).out == expected, name
    kept = tacit("predict", "run", "new.parquet", "--keep", "patient_id").out.splitlines()
    assert kept[1].startswith("000000,")


def test_chunks_do_not_change_the_predictions(tacit, monkeypatch):
    finished(tacit)
    patients(40, seed=2).to_csv("new.csv", index=False)
    expected = tacit("predict", "run", "new.csv", "--proba", "--keep", "patient_id").out
    monkeypatch.setattr("tacit.runs.prediction.record_files._MAX_ROWS", 7)
    assert tacit("predict", "run", "new.csv", "--proba", "--keep", "patient_id").out == expected


def test_columns_of_new_records(tacit):
    finished(tacit)
    new = patients(10, seed=3)
    new.assign(room="12", weight=70).to_csv("new.csv", index=False)
    ended = tacit("predict", "run", "new.csv", "--keep", "room", "--out", "out.csv")
    assert ended.err == "note: columns that the model does not know are ignored: weight\n"
    assert list(pd.read_csv("out.csv")) == ["room", "predicted_outcome"]
    new.drop(columns=["age", "notes"]).to_csv("less.csv", index=False)
    ended = tacit("predict", "run", "less.csv", "--out", "less-out.csv")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: less.csv has no column 'age'; it has: ")
    ended = tacit("predict", "run", "new.csv", "--keep", "name")
    assert ended.code == 2
    assert ended.err.startswith('error: new.csv has no column "name"; its columns are: patient_id, age, ')
    new.assign(predicted_outcome=1).to_csv("clash.csv", index=False)
    ended = tacit("predict", "run", "clash.csv", "--keep", "predicted_outcome", "--out", "less-out.csv")
    assert (ended.code, "rename it in the file" in ended.err) == (2, True)
    assert not list(Path().glob("less-out*"))


def test_column_in_another_form_than_in_training_is_noted(tacit):
    finished(tacit)
    patients(10, seed=3).assign(sex="female").to_csv("new.csv", index=False)
    ended = tacit("predict", "run", "new.csv")
    assert ended.code == 0
    assert ended.err == "note: column sex has no valid cell in the first 10 records; they count as missing\n"


def test_table_without_records(tacit):
    finished(tacit)
    patients(3).iloc[:0].to_csv("new.csv", index=False)
    ended = tacit("predict", "run", "new.csv", "--proba", "--keep", "patient_id")
    assert (ended.code, ended.out) == (0, "patient_id,predicted_outcome,probability_no,probability_yes\n")


def test_json(tacit):
    finished(tacit)
    patients(5, seed=1).to_csv("new.csv", index=False)
    result = json.loads(tacit("predict", "run", "new.csv", "--json", "--proba", "--keep", "patient_id").out)
    assert [row["patient_id"] for row in result["predictions"]] == [f"{i:06d}" for i in range(5)]
    first = result["predictions"][0]
    assert first["predicted_outcome"] in ("no", "yes")
    assert first["probability_no"] + first["probability_yes"] == pytest.approx(1)
    assert result["privacy"]["guaranteed"] > 0
    result = json.loads(tacit("predict", "run", "new.csv", "--json", "--out", "out.csv").out)
    assert (result["records"], result["out"]) == (5, "out.csv")


@pytest.mark.parametrize("task", ["classification", "multi-label", "regression"])
def test_numbers_without_a_table(tacit, task):
    run = trained(task, "mlp", out=Path("run"))
    x, target = run.task.data.test_x, TARGETS[task]
    np.savetxt("plain.csv", x.numpy(), delimiter=",")
    pd.DataFrame(x.numpy(), columns=list("abcd")).assign(id=range(len(x))).to_csv("named.csv", index=False)
    np.savez("new.npz", x=x.numpy())
    tables = [
        pd.read_csv(StringIO(tacit("predict", "run", *given).out))
        for given in (("plain.csv",), ("named.csv", "--keep", "id"), ("new.npz",))
    ]
    assert tables[1].pop("id").tolist() == list(range(len(x)))
    for table in tables:
        predicted = run.predict(x)
        if target.kind == "labels":
            assert list(table) == ["predicted_cough", "predicted_fever"]
            assert table.to_numpy().tolist() == predicted.tolist()
        elif target.kind == "class":
            assert table["predicted_risk"].tolist() == predicted.tolist()
        else:
            np.testing.assert_allclose(table["predicted_days"], predicted, rtol=1e-5)


def test_label_column_of_a_numeric_file_is_not_a_feature(tacit):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(60, 3)), columns=list("abc")).assign(kind=draw.choice([3, 7], 60))
    frame.to_csv("records.csv", index=False)
    text = CONFIG.replace('path = "records.csv"', 'path = "records.csv"\nlabel = "kind"\nlabels = [3, 7]')
    Path("config.toml").write_text(text)
    assert tacit("train", "config.toml", "--out", "run").code == 0
    with_label = tacit("predict", "run", "records.csv").out
    assert with_label.splitlines()[0] == "predicted_kind"
    frame.drop(columns="kind").to_csv("new.csv", index=False)
    assert tacit("predict", "run", "new.csv").out == with_label


BAD_FILES = {
    "absent.csv": (None, "there is no file "),
    "narrow.csv": ("1,2,3\n", "narrow.csv has 3 columns, but the model needs 4 features: leave out the labels"),
    "text.csv": ("a,b,c,d\n1,2,3,4\n1,x,3,4\n", "text.csv: line 3, column b is not a finite number"),
    "empty.csv": ("", "empty.csv is empty"),
    "new.npz": ("hello", "new.npz is damaged or not a .npz file of numeric arrays"),
    "new.parquet": ("hello", "new.parquet is damaged or not a Parquet file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_cannot_be_read_are_refused_with_one_sentence(tacit, name):
    trained(out=Path("run"))
    content, sentence = BAD_FILES[name]
    if content is not None:
        Path(name).write_text(content)
    ended = tacit("predict", "run", name, "--out", "out.csv")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert not list(Path().glob("out.csv*"))


def test_runs_that_cannot_predict_are_refused_with_one_sentence(tacit):
    Path("new.csv").write_text("1,2,3,4\n")
    ended = tacit("predict", "nowhere", "new.csv")
    assert (ended.code, ended.err) == (2, "error: nowhere is not a run folder: it has no config.toml and history.csv\n")
    small(algorithm={"name": "dyn-d2p", "noise_multiplier": 1.5, "share": ["0.weight"]}, out=Path("partial")).go()
    ended = tacit("predict", "partial", "new.csv")
    assert (ended.code, "no complete mean model: choose the model of one node" in ended.err) == (2, True)
    trained("regression", out=Path("run"))
    ended = tacit("predict", "run", "new.csv", "--proba")
    assert (ended.code, ended.err) == (2, "error: this model predicts a number, which has no probabilities\n")
    path = Path("run/model.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    ended = tacit("predict", "run", "new.csv")
    assert (ended.code, "model.safetensors was changed after the run had ended" in ended.err) == (2, True)


def test_model_of_one_node(tacit):
    run = trained("regression", out=Path("run"))
    np.savez("new.npz", x=run.task.data.test_x)
    found = [
        pd.read_csv(StringIO(tacit("predict", "run", "new.npz", *node).out))["predicted_days"]
        for node in ([], ["--node", "2"])
    ]
    np.testing.assert_allclose(found[0], run.predict(run.task.data.test_x), rtol=1e-5)
    np.testing.assert_allclose(found[1], run.predict(run.task.data.test_x, node=2), rtol=1e-5)
    assert not np.allclose(found[0], found[1])
