"""The command `tacit predict`: one line per record, as in Python and as the exported model predicts."""

import json
import warnings
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


@pytest.mark.filterwarnings("ignore:column (age|sex)")
@pytest.mark.parametrize("target", ["class", "number", "count"])
def test_command_python_and_onnx_agree_on_a_table(tacit, target):
    finished(tacit, target)
    new = patients(50, seed=1, target=target).drop(columns=NAMES[target])
    new.to_csv("new.csv", index=False)
    proba = ["--proba"] if target == "class" else []
    ended = tacit("predict", "run", "new.csv", "--out", "predictions.csv", "--keep", "patient_id", *proba)
    assert (ended.code, [line.split(":")[1] for line in ended.err.splitlines()]) == (0, [" column age", " column sex"])
    assert ended.out.splitlines()[0] == "Predictions of 50 records: predictions.csv"
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
    assert ended.err.splitlines()[0] == "note: columns that the model does not use are ignored: weight"
    assert list(pd.read_csv("out.csv")) == ["room", "predicted_outcome"]
    new.assign(**{"": 1}).to_csv("nameless.csv", index=False)
    ended = tacit("predict", "run", "nameless.csv", "--out", "out.csv")
    assert ended.err.splitlines()[0] == 'note: columns that the model does not use are ignored: ""'
    new.drop(columns=["age", "notes"]).to_csv("less.csv", index=False)
    ended = tacit("predict", "run", "less.csv", "--out", "less-out.csv")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: less.csv has no column 'age'; it has: ")
    ended = tacit("predict", "run", "new.csv", "--keep", "name")
    assert ended.code == 2
    assert ended.err.startswith('error: new.csv has no column "name"; its columns are: patient_id, age, ')
    Path("twice.csv").write_text("age,crp,sex,visit,room,room\n50,1,F,2020-01-01,a,b\n")
    ended = tacit("predict", "run", "twice.csv", "--keep", "room")
    assert ended.err == 'error: twice.csv has 2 columns "room": rename or remove one of them\n'
    new.assign(predicted_outcome=1).to_csv("clash.csv", index=False)
    ended = tacit("predict", "run", "clash.csv", "--keep", "predicted_outcome", "--out", "less-out.csv")
    assert (ended.code, "rename it in the file" in ended.err) == (2, True)
    assert not list(Path().glob("less-out*"))


def test_names_that_differ_only_in_case_are_suggested(tacit):
    finished(tacit)
    patients(10, seed=3).rename(columns={"age": "AGE", "crp": "Crp"}).to_csv("new.csv", index=False)
    ended = tacit("predict", "run", "new.csv")
    start = (
        "error: new.csv has no columns 'age' (did you mean 'AGE'?), 'crp' (did you mean 'Crp'?); it has: patient_id, "
    )
    assert (ended.code, ended.err[: len(start)]) == (2, start)


def clean(count, **columns):
    """New records in which all cells are valid, with some other columns."""
    frame = pd.DataFrame({"age": [20 + i % 60 for i in range(count)], "sex": "F", "crp": "27.5", "visit": "2020-01-01"})
    return frame.assign(**columns)


CATEGORIES = "none of the declared categories (F, M) and count as missing"
NOTES = {
    "valid": (clean(10), []),
    "age in months": (
        clean(40, age=[12 * year for year in range(40)]),
        ["column age: 75 % of the cells are outside the declared range [0, 110] and were clamped"],
    ),
    "other categories except in one row": (
        clean(300, sex=["F", *["female"] * 299]),
        [f"column sex: 99 % of the cells are {CATEGORIES}"],
    ),
    "decimal commas": (
        clean(10, crp="27,5"),
        ['column crp: 100 % of the cells are not numbers with the decimal mark "." and count as missing'],
    ),
    "other dates": (
        clean(10, visit="01.02.2020"),
        ["column visit: 100 % of the cells are not ISO 8601 dates such as 2020-12-31 and count as missing"],
    ),
    "late dates": (
        clean(10, visit="2031-01-01"),
        ["column visit: 100 % of the cells are outside the declared range [2015-01-01, 2025-12-31] and were clamped"],
    ),
    "empty, unknown and clamped": (
        clean(20, age=["", "", "?", "?", "?", "200", *["50"] * 14]),
        [
            'column age: 15 % of the cells are not numbers with the decimal mark "." and count as missing; 10 % are '
            "empty; 5 % are outside the declared range [0, 110] and were clamped"
        ],
    ),
    "two of nine": (clean(9, age=["?"] * 2 + [50] * 7), ["column age: 22 % of the cells are not numbers"]),
    "two of ten": (clean(10, age=["?"] * 2 + [50] * 8), []),
    "one of three": (clean(3, age=["?", 50, 50]), []),
}


def test_columns_in_another_form_than_in_training_are_noted(tacit, monkeypatch):
    finished(tacit)
    monkeypatch.setattr("tacit.runs.prediction.record_files._MAX_ROWS", 7)  # counts are those of all chunks
    loaded = package.load("run")
    for case, (frame, expected) in NOTES.items():
        frame.to_csv("new.csv", index=False)
        ended = tacit("predict", "run", "new.csv", "--json")
        found = json.loads(ended.out)["notes"]
        assert len(found) == len(expected), case
        assert all(note.startswith(start) for note, start in zip(found, expected, strict=True)), (case, found)
        assert ended.err == "".join(f"note: {note}\n" for note in found)
        for records in (frame, "new.csv"):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                loaded.predict(records)
            assert [str(each.message) for each in warned] == found, case


@pytest.mark.parametrize("separator", [";", ","])
def test_frames_have_the_decimal_mark_of_the_training_table(tacit, separator):
    """The csv file and the frame that pandas reads from it have the same predictions, also text with commas."""
    new = clean(12, crp=[f"{value},5" for value in range(0, 480, 40)])
    records = patients(120)
    records.assign(crp=records["crp"].str.replace(".", ",")).to_csv("records.csv", index=False, sep=separator)
    declared = "" if separator == ";" else 'decimal = ","\n'
    Path("config.toml").write_text(
        CONFIG.replace('path = "records.csv"\n', f'path = "records.csv"\n{declared}')
        + COLUMNS
        + TARGET_COLUMNS["class"]
    )
    assert tacit("train", "config.toml", "--out", "run").code == 0
    new.to_csv("new.csv", index=False, sep=separator)
    loaded, frame = package.load("run"), pd.read_csv("new.csv", sep=separator)
    assert isinstance(frame["crp"][0], str)
    from_file = loaded.predict_proba("new.csv")
    assert len(np.unique(from_file[:, 0])) == 12
    np.testing.assert_array_equal(loaded.predict_proba(frame), from_file)
    np.testing.assert_array_equal(loaded.predict_proba(frame, node=1), loaded.predict_proba("new.csv", node=1))


def test_epsilon_is_stated_for_the_training_records(tacit):
    finished(tacit)
    clean(5).to_csv("new.csv", index=False)
    lines = tacit("predict", "run", "new.csv", "--out", "out.csv").out.splitlines()
    assert lines[0] == "Predictions of 5 records: out.csv"
    assert lines[1].startswith("Privacy of the model, for its training records: Guaranteed (simulated) ε = ")
    assert lines[2:] == [
        "SIMULATION: the noise is derived from seed 0, so this run protects nobody.",
        "This ε does not protect the predicted records.",
    ]
    assert json.loads(tacit("predict", "run", "new.csv", "--json").out)["verified"] is True
    lines = tacit("predict", "run", "new.csv", "--out", "out.csv", "--no-verify").out.splitlines()
    assert lines[1].startswith("Privacy of the model, for its training records: stated, not verified (simulated): ε = ")
    assert not any("uaranteed" in line for line in lines)
    assert json.loads(tacit("predict", "run", "new.csv", "--json", "--no-verify").out)["verified"] is False


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
    assert (ended.code, ended.err) == (2, "error: nowhere is not a run folder: it needs config.toml and history.csv\n")
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
