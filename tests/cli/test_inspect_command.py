"""The command `tacit inspect`."""

import gzip
import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tacit.runs import Config, from_config
from tacit.tasks import TableSchema
from tests.cli.conftest import setting

DATES = pd.date_range("2019-03-05", periods=200)


def patients(rows=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient_id": [f"P{i:05d}" for i in range(rows)],
            "visit": DATES[:rows].strftime("%d.%m.%Y"),
            "admission_date": DATES[:rows].strftime("%Y-%m-%d"),
            "age": rng.integers(1, 104, rows).astype(str),
            "crp": rng.lognormal(2, 1.3, rows).round(1).astype(str),
            "sex": rng.choice(["F", "M"], rows),
            "smoker": rng.choice(["true", "false"], rows),
            "letter": "Dear colleague",
            "ward name": [f"W{i}" for i in range(rows)],
            "code": [f"c{i}" for i in range(rows)],
            "stay": rng.uniform(0.5, 58, rows).round(1).astype(str),
            "outcome": rng.choice(["no", "yes"], rows, p=[0.95, 0.05]),
        }
    )


@pytest.fixture
def csv(tmp_path):
    table = patients()
    table.loc[3, ["age", "sex", "crp"]] = ["", "?", "999999999"]
    table.to_csv(tmp_path / "records.csv", index=False)
    return tmp_path / "records.csv"


def columns_of(text):
    return tomllib.loads(text)["data"]["columns"]


def test_a_draft_from_names_has_no_value_of_a_record(tacit, csv):
    ended = tacit("inspect", "records.csv", "--label", "outcome")
    assert (ended.code, ended.err) == (0, "")
    assert columns_of(ended.out) == {"patient_id": "drop", "letter": "drop", "ward name": "drop"}
    lines = ended.out.splitlines()
    assert 'patient_id = "drop"  # the name suggests an identifier' in lines
    assert 'letter = "drop"  # the name suggests free text' in lines
    assert "# age = { range = [LOW, HIGH] }  # if it contains numbers; replace by public knowledge" in lines
    assert '# sex = { categories = ["FIRST", "SECOND"] }  # replace by public knowledge' in lines
    assert any(line.startswith('# admission_date = { date = ["FIRST", "LAST"] }') for line in lines)
    assert any(line.startswith('# outcome = { label = ["FIRST", "SECOND"] }  # the target') for line in lines)
    assert tomllib.loads(ended.out)["data"] | {"columns": {}} == {
        "name": "csv",
        "path": "records.csv",
        "missing": "middle",
        "columns": {},
    }


def test_a_draft_from_names_must_be_completed(tacit, csv):
    tacit("inspect", "records.csv", "--label", "outcome", "--out", "draft.toml")
    ended = tacit("train", "draft.toml")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "no column is declared from which to predict" in ended.err


def test_records_do_not_change_a_draft_from_names(tacit, tmp_path):
    header = "patient_id;age;outcome"
    bodies = ["1;30;yes\n2;40;no\n", "", "x\n", '"never closed;;;;\n\n\n', "\x00\xff;;;;;;;\n", "a;b;c;d;e\n" * 500]
    drafts = []
    for body in bodies:
        (tmp_path / "records.csv").write_bytes(f"{header}\n{body}".encode("latin-1"))
        drafts.append(tacit("inspect", "records.csv", "--target", "age"))
    assert len(set(drafts)) == 1
    assert drafts[0].code == 0


def test_a_draft_from_records_is_a_config(tacit, csv):
    ended = tacit("inspect", "records.csv", "--label", "outcome", "--from-records", "--out", "draft.toml")
    assert (ended.code, ended.out) == (0, "Draft: draft.toml\n")
    assert ended.err.startswith("warning: ")
    assert "come from the records and are not private. Replace them by public knowledge" in ended.err
    text = Path("draft.toml").read_text()
    assert text.startswith("# WARNING: ")
    assert columns_of(text) == {
        "patient_id": "drop",
        "visit": {"date": ["2019-01-01", "2019-12-31"], "format": "%d.%m.%Y"},
        "admission_date": {"date": ["2019-01-01", "2019-12-31"]},
        "age": {"range": [0, 150]},
        "crp": columns_of(text)["crp"],
        "sex": {"categories": ["F", "M"]},
        "smoker": {"categories": [False, True]},
        "letter": "drop",
        "ward name": "drop",
        "code": "drop",
        "stay": {"range": [0, 60]},
        "outcome": {"label": ["no", "yes"]},
    }
    low, high = columns_of(text)["crp"]["range"]
    assert low == 0
    assert float(patients()["crp"].astype(float).max()) <= high < 1000
    for name, column in columns_of(text).items():
        if column != "drop":
            line = next(line for line in text.splitlines() if line.startswith(f"{name} = "))
            assert "from the records: replace by public knowledge" in line
    refused = tacit("train", "draft.toml", *setting("graph.nodes=2"))
    assert refused.code == 2
    assert "these columns are a draft with values of the records" in refused.err
    assert "Reading" not in refused.err
    Path("draft.toml").write_text(text.replace("from_records = true", "#"))
    run = tacit("train", "draft.toml", *setting("rounds=2", "graph.nodes=2", "batch.size=16", "privacy.delta=1e-4"))
    assert run.code == 0
    assert from_config(Config.load(Path("draft.toml"), ["graph.nodes=2"])).task.data.schema is not None


def test_a_number_to_predict(tacit, csv):
    ended = tacit("inspect", "records.csv", "--target", "stay", "--from-records")
    assert columns_of(ended.out)["stay"] == {"target": [0, 60]}
    assert columns_of(ended.out)["outcome"] == {"categories": ["no", "yes"]}


def test_without_a_target_the_draft_says_so(tacit, csv):
    ended = tacit("inspect", "records.csv", "--from-records")
    assert "# One column must be the target" in ended.out
    assert json.loads(tacit("inspect", "records.csv", "--from-records", "--json").out)["complete"] is False


def test_json_has_the_same_declarations(tacit, csv):
    ended = tacit("inspect", "records.csv", "--label", "outcome", "--from-records", "--json", "--out", "draft.toml")
    found = json.loads(ended.out)
    assert (found["from_records"], found["complete"], found["out"]) == (True, True, "draft.toml")
    assert "not private" in found["warning"]
    assert found["config"]["data"]["columns"] == columns_of(Path("draft.toml").read_text())
    names = json.loads(tacit("inspect", "records.csv", "--label", "outcome", "--json").out)
    assert (names["from_records"], names["complete"], names["warning"]) == (False, False, None)
    assert names["columns"]["age"]["declaration"] is None
    assert names["columns"]["age"]["template"] == "{ range = [LOW, HIGH] }"


def test_unusual_names_are_quoted(tacit, tmp_path):
    names = ['a "b"', "größe", "x=y", "", "tab\there", "#1", "line\nbreak"]
    table = pd.DataFrame([[str(i) for _ in names] for i in range(40)], columns=names)
    table["y"] = ["no", "yes"] * 20
    table.to_csv(tmp_path / "records.csv", index=False)
    ended = tacit("inspect", "records.csv", "--label", "y", "--from-records")
    columns = columns_of(ended.out)
    assert list(columns) == [*names, "y"]
    assert columns["größe"] == {"range": [0, 40]}
    assert tomllib.loads(tacit("inspect", "records.csv").out)["data"]["columns"] == {"": "drop"}


def test_other_forms_of_csv(tacit, tmp_path):
    table = patients()[["age", "stay", "outcome"]].assign(stay=lambda t: t["stay"].str.replace(".", ",", regex=False))
    text = table.to_csv(index=False, sep=";")
    (tmp_path / "a.csv").write_text(text, encoding="utf-16")
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write(text)
    (tmp_path / "c.csv").write_text(text.replace("outcome", "größe").replace(";", "$"), encoding="cp1252")
    for name in ("a.csv", "b.csv.gz"):
        ended = tacit("inspect", name, "--target", "stay", "--from-records")
        assert columns_of(ended.out)["stay"] == {"target": [0, 60]}
    ended = tacit("inspect", "c.csv", "--separator", "$", "--encoding", "cp1252", "--from-records")
    data = tomllib.loads(ended.out)["data"]
    assert (data["separator"], data["encoding"], data["columns"]["größe"]) == (
        "$",
        "cp1252",
        {"categories": ["no", "yes"]},
    )


def test_types_of_parquet_files_are_used(tacit, tmp_path):
    pytest.importorskip("pyarrow")
    table = patients(50).assign(
        age=lambda t: t["age"].astype(int),
        admission_date=DATES[:50],
        smoker=lambda t: t["smoker"] == "true",
        code=[[i] for i in range(50)],
        sex=lambda t: t["sex"].astype("category"),
        result=[None, True] * 25,
    )
    table.loc[4, "admission_date"] = pd.NaT
    table.to_parquet(tmp_path / "records.parquet")
    ended = tacit("inspect", "records.parquet", "--label", "result")
    data = tomllib.loads(ended.out)["data"]
    assert data["name"] == "parquet"
    assert data["columns"]["smoker"] == {"categories": [False, True]}
    assert data["columns"]["result"] == {"label": [False, True]}
    assert 'code = "drop"  # cells of this type cannot be used' in ended.out
    for name, template in (("age", "range = [LOW"), ("admission_date", 'date = ["FIRST'), ("sex", "categories = [")):
        assert f"# {name} = {{ {template}" in ended.out
    columns = columns_of(tacit("inspect", "records.parquet", "--label", "outcome", "--from-records").out)
    assert columns["admission_date"] == {"date": ["2019-01-01", "2019-12-31"]}
    assert columns["smoker"] == {"categories": [False, True]}
    assert columns["sex"] == {"categories": ["F", "M"]}
    assert TableSchema.parse(columns).target.labels == ("no", "yes")
    lines = ['admission_date = {date = ["2019-03-10", "2030-01-01"]}', 'outcome = {label = ["no", "yes"]}']
    Path("mine.toml").write_text("\n".join(["[data.columns]", *lines]))
    found = json.loads(tacit("inspect", "records.parquet", "--check", "mine.toml", "--json").out)
    assert found["columns"][0] == {"name": "admission_date", "missing": 1, "unknown": 0, "clamped": 4}


CHECKED = """
[data]
name = "csv"
path = "elsewhere.csv"

[data.columns]
patient_id = "drop"
visit = {date = ["2019-03-10", "2019-12-31"], format = "%d.%m.%Y"}
age = {range = [0, 50]}
sex = {categories = ["F", "M"]}
crp = {range = [0, 100000]}
weight = {range = [0, 100]}
outcome = {label = ["no", "yes"]}
"""


def test_a_check_counts_cells_that_do_not_fit(tacit, csv):
    Path("mine.toml").write_text(CHECKED)
    ended = tacit("inspect", "records.csv", "--check", "mine.toml", "--json")
    assert ended.code == 1
    assert ended.err.startswith("CONFIDENTIAL: ")
    found = json.loads(ended.out)
    assert (found["records"], found["confidential"], found["fits"]) == (200, True, False)
    assert found["absent"] == ["weight"]
    assert found["undeclared"] == ["admission_date", "smoker", "letter", "ward name", "code", "stay"]
    old = int((patients()["age"].astype(int).drop(3) > 50).sum())
    assert {each.pop("name"): tuple(each.values()) for each in found["columns"]} == {
        "age": (1, 0, old),
        "crp": (0, 0, 1),
        "sex": (0, 1, 0),
        "visit": (0, 0, 5),
        "outcome": (0, 0, 0),
    }
    printed = tacit("inspect", "records.csv", "--check", "mine.toml")
    assert f"age            1        0  {old:>7}" in printed.out.splitlines()
    assert "Declared, but not in the table: weight" in printed.out


def test_a_check_of_the_declared_columns_ends_with_0(tacit, csv):
    tacit("inspect", "records.csv", "--label", "outcome", "--from-records", "--out", "draft.toml")
    assert tacit("inspect", "records.csv", "--check", "draft.toml").code == 0
    table = patients().assign(age="wrong")
    table.to_csv("wrong.csv", index=False)
    assert tacit("inspect", "wrong.csv", "--check", "draft.toml").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.csv"], "there is no file"),
        (["empty.csv"], "is empty"),
        (["twice.csv"], "has several columns 'a': rename or remove them"),
        (["wrong.parquet"], "is damaged or not a Parquet file"),
        (["records.csv", "--label", "outcom"], 'unknown column of records.csv "outcom"; did you mean "outcome"?'),
        (["records.csv", "--label", "age", "--target", "stay"], "give a label or a target, not both"),
        (["records.csv", "--out", "empty.csv"], "empty.csv exists"),
        (["records.csv", "--check", "nothing.toml"], "cannot read the config nothing.toml"),
        (["records.csv", "--check", "plain.toml"], "plain.toml declares no columns"),
        (["records.csv", "--check", "bad.toml"], 'column age: unknown declaration "rnge"; did you mean "range"?'),
        (["records.csv", "--check", "plain.toml", "--label", "age"], "--check has no draft"),
    ],
)
def test_errors_are_one_sentence(tacit, csv, arguments, words):
    for name, text in {
        "empty.csv": "",
        "twice.csv": "a,b,a\n1,2,3\n",
        "wrong.parquet": "PAR1",
        "plain.toml": "rounds = 3",
        "bad.toml": "[data.columns]\nage = {rnge = [0, 1]}",
    }.items():
        Path(name).write_text(text)
    before = sorted(Path().iterdir())
    ended = tacit("inspect", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert words in ended.err
    assert sorted(Path().iterdir()) == before
