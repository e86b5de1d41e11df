"""Declared columns: how records are prepared, compared with plain Python code; errors; the JSON form."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.tasks import TableSchema
from tests.tasks import table_oracle as oracle

LABEL = {"outcome": {"label": ["no", "yes"]}}
FORMATS = [None, "%d.%m.%Y", "%m/%d/%y", "%Y%m%d %H:%M"]
NASTY = ["", " ", "NA", "nan", "-inf", "1e999", "-1e308", "1_0", "3,5", "3.5", "1.234,5", "٣", "0x1", "TRUE", "false"]
NASTY += [
    "2020-02-30",
    "2020-01-01T00:00+14:00",
    "0001-01-01",
    "9999-12-31",
    "\x00",
    "\ufeff1",
    "é",
    " F ",
    "1.0",
    "01",
]

cells = st.sampled_from(NASTY) | st.floats(-200, 200).map(str) | st.dates().map(str) | st.text(max_size=6)
intervals = st.tuples(st.integers(-100, 99), st.integers(1, 100)).map(lambda ends: [ends[0], ends[0] + ends[1]])


@st.composite
def inputs(draw):
    """The declaration of an input column, and a strategy for its cells."""
    kind = draw(st.sampled_from(["range", "date", "categories"]))
    missing = draw(st.sampled_from([{}, {"missing": "middle"}, {"missing": "indicator"}]))
    if kind == "range":
        scale = draw(st.sampled_from(["linear", "log"]))
        return {"range": draw(intervals), "scale": scale, **missing}, st.floats(-150, 250).map("{:.4g}".format) | cells
    if kind == "date":
        form = draw(st.sampled_from(FORMATS))
        dates = st.datetimes().map(lambda day: day.strftime(form) if form else str(day))
        declared = {"date": ["1990-01-01", "2025-12-31T12:00"], **missing}
        return {**declared, "format": form} if form else declared, dates | cells
    values = draw(st.sampled_from([["F", "M"], ["a"], [1, 2, 0.5], [True, False], ["TRUE", "x"], ["1", "01", "1.0"]]))
    return {"categories": values, **missing}, st.sampled_from(values).map(str) | cells


TARGETS = [
    {"t": {"label": ["no", "yes", "x y"]}},
    {"t": {"label": [0, 1]}},
    {"t": {"target": [-5, 60]}},
    {"t": {"count": [0, 20]}},
    {"t": {"count": [2, 20]}},
    {"b": {"flag": ["no", "yes"]}, "a": {"flag": [False, True]}, "c": {"flag": [0, 1]}},
]


@st.composite
def tables(draw):
    """Declared columns, the `missing` of the table, rows of texts, and a decimal mark."""
    named = draw(st.dictionaries(st.text("zyxZ é=", min_size=1, max_size=3), inputs(), min_size=1, max_size=4))
    targets = draw(st.sampled_from(TARGETS))
    rows = st.fixed_dictionaries(
        {name: column[1] for name, column in named.items()}
        | dict.fromkeys(targets, cells | st.sampled_from(["no", "yes", "1", "true", "12.5"]))
    )
    columns = {name: column[0] for name, column in named.items()} | targets
    missing, decimal = draw(st.sampled_from(["middle", "indicator"])), draw(st.sampled_from([".", ",", "both"]))
    return columns, missing, draw(st.lists(rows, max_size=8)), decimal


@given(tables())
def test_records_are_prepared_as_plain_python_does(case):
    columns, missing, rows, decimal = case
    schema = TableSchema.parse(columns, missing)
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    x, y = schema.prepare(frame, decimal), schema.targets(frame, decimal)
    expected = [oracle.prepared(row, columns, missing, decimal) for row in rows]
    assert (x.dtype, x.shape) == (np.float32, (len(rows), len(schema.features)))
    assert np.allclose(x, np.array(expected).reshape(x.shape), atol=1e-6)
    assert (np.abs(x) <= 1).all()
    targets = np.array([oracle.target(row, columns, decimal) for row in rows]).reshape(y.shape)
    assert y.shape == (len(rows), *schema.target.shape)
    assert y.dtype == (np.int64 if schema.target.classes else np.float32)
    assert np.allclose(y, targets, atol=1e-5)


@given(tables())
def test_json_form_restores_the_schema_in_any_order(case):
    columns, missing, rows, decimal = case
    schema = TableSchema.parse(columns, missing)
    text = json.dumps(schema.to_dict(), sort_keys=True)
    reordered = TableSchema.parse(dict(reversed(columns.items())), missing)
    assert TableSchema.from_dict(json.loads(text)) == schema == reordered
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    assert schema.prepare(frame, decimal).tobytes() == reordered.prepare(frame[frame.columns[::-1]], decimal).tobytes()
    assert (schema.features, schema.target) == (reordered.features, reordered.target)


def test_names_and_shapes_follow_from_the_declaration():
    schema = TableSchema.parse(
        {
            "visit": {"date": ["2015-01-01", "2025-12-31"]},
            "sex": {"categories": ["F", "M"]},
            "crp": {"range": [0, 500], "scale": "log", "missing": "indicator"},
            "age": {"range": [0, 110]},
            "notes": "drop",
            "stay": {"target": [0, 60]},
        }
    )
    assert schema.features == ["age", "crp", "crp missing", "sex=F", "sex=M", "visit"]
    assert (schema.inputs, schema.dropped_columns, schema.target.name) == ((6,), ["notes"], "stay")
    assert (schema.target.kind, schema.target.range) == ("number", (0, 60))
    flags = TableSchema.parse({"age": {"range": [0, 1]}, "b": {"flag": [0, 1]}, "a": {"flag": ["-", "+"]}}).target
    assert (flags.kind, flags.labels) == ("labels", ("a", "b"))
    assert TableSchema.parse({"age": {"range": [0, 1]}, "n": {"count": [0, 9]}}).target.kind == "count"


def test_scales():
    columns = {
        "a": {"range": [0, 10]},
        "b": {"range": [0, 99], "scale": "log"},
        "c": {"date": ["2020-01-01", "2020-01-05"]},
    }
    frame = pd.DataFrame(
        {"a": ["0", "5", "20", "x"], "b": ["0", "9", "99", ""], "c": ["2020-01-01", "2020-01-03", "2030-01-01", "?"]}
    )
    x = TableSchema.parse({**columns, **LABEL}).prepare(frame)
    assert x.tolist() == [[-1, -1, -1], [0, 0, 0], [1, 1, 1], [0, 0, 0]]


def test_typed_columns_are_prepared_like_their_texts():
    columns = {
        "number": {"range": [0, 10]},
        "code": {"categories": ["1", "2"]},
        "level": {"categories": [1, 2.5]},
        "truth": {"categories": ["true", "false"]},
        "day": {"date": ["2020-01-01", "2020-12-31"]},
        **LABEL,
    }
    texts = pd.DataFrame(
        {
            "number": ["1", "", "7.5"],
            "code": ["1", "2", ""],
            "level": ["1", "2.5", ""],
            "truth": ["True", "", "false"],
            "day": ["2020-03-01", "2020-03-01T12:00", ""],
            "outcome": ["yes", "no", ""],
        }
    )
    moments = pd.to_datetime(["2020-03-01", "2020-03-01T12:00", None], format="ISO8601")
    typed = {
        "number": [pd.array([1, None, 7.5], "Float64"), [1.0, None, 7.5], [1, float("nan"), "7.5"], [True, None, 7.5]],
        "code": [pd.array([1, 2, None], "Int64"), [1.0, 2.0, None], [1, "2", None], pd.Categorical(["1", "2", None])],
        "level": [[1.0, 2.5, None], ["1.0", 2.5, None], [True, 2.5, float("inf")]],
        "truth": [pd.array([True, None, False], "boolean"), [True, None, False], ["TRUE", "?", "FALSE"]],
        "day": [
            moments,
            moments.tz_localize("UTC"),
            moments.tz_localize("Europe/Berlin") + pd.Timedelta("1h"),
            list(moments),
        ],
        "outcome": [pd.Categorical(["yes", "no", None]), [b"yes", b"no", object()]],
    }
    schema = TableSchema.parse(columns, "indicator")
    x, y = schema.prepare(texts), schema.targets(texts)
    for name, variants in typed.items():
        for values in variants:
            frame = texts.assign(**{name: values})
            assert schema.prepare(frame).tolist() == x.tolist(), name
            assert schema.targets(frame).tolist() == y.tolist()


@pytest.mark.parametrize("column", ["age", "sex", "outcome", "visit"])
def test_missing_refuse_names_the_place_and_not_the_cell(column):
    columns = {
        "age": {"range": [0, 110]},
        "sex": {"categories": ["F", "M"]},
        "visit": {"date": ["2015-01-01", "2025-12-31"]},
        **LABEL,
    }
    good = {"age": ["1", "2"], "sex": ["F", "M"], "visit": ["2020-01-01"] * 2, "outcome": ["no", "yes"]}
    bad = pd.DataFrame({**good, column: [good[column][0], "s3cret"]})
    for schema in (
        TableSchema.parse(columns, "refuse"),
        TableSchema.parse({**columns, column: {**columns[column], "missing": "refuse"}}),
    ):
        schema.prepare(pd.DataFrame(good))
        with pytest.raises(
            TacitError,
            match=rf'row 1 \(counted from 0\), column {column} is missing or not valid, and missing = "refuse"',
        ) as refusal:
            schema.prepare(bad), schema.targets(bad)
        assert "s3cret" not in str(refusal.value)
    assert TableSchema.parse(columns).prepare(bad).shape == (2, 4)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"age": {"rnge": [0, 1]}}, 'column age: unknown declaration "rnge"; did you mean "range"?'),
        (
            {"age": {"range": [0, 1], "scal": "log"}},
            'column age: unknown parameter of declaration range "scal"; did you',
        ),
        (
            {"age": {"range": [1, 0]}},
            r"column age: declaration range: range = \[1, 0\] is wrong: must be \[low, high\]",
        ),
        ({"age": {"range": [0, float("inf")]}}, "two finite numbers, low < high"),
        ({"age": {"range": [-1e308, 1e308]}}, "two finite numbers, low < high"),
        ({"age": {"range": "0-110"}}, r"range = '0-110' is wrong: must be \[low, high\]"),
        ({"age": {"range": [False, True]}}, "two finite numbers"),
        ({"age": {"range": [0, 1], "scale": "cubic"}}, "scale = 'cubic' should be 'linear' or 'log'"),
        ({"age": {"range": [0, 1], "missing": "mean"}}, "missing = 'mean' should be 'middle', 'indicator' or 'refuse'"),
        (
            {"age": {"range": [0, 1], "categories": ["a"]}},
            "column age: the declaration has range and categories; it needs one",
        ),
        (
            {"age": {}},
            "column age: the declaration is empty; it needs one of: categories, count, date, flag, label, range",
        ),
        ({"age": "dorp"}, "column age: a declaration is a table such as .* or \"drop\", got 'dorp'"),
        ({"age": 3}, "column age: a declaration is a table"),
        (
            {"age": {"range": "private"}},
            r'column age: range = "private" needs public bounds: set within = \[low, high\]',
        ),
        ({"age": {"range": [0, 1], "within": [0, 2]}}, 'within has an effect only with range = "private"'),
        ({"sex": {"categories": []}}, r"column sex: categories must list at least 1 different values .* got \[\]"),
        ({"sex": {"categories": ["F", "F "]}}, "categories must list at least 1 different values"),
        ({"sex": {"categories": [1, "1"]}}, "different values"),
        ({"sex": {"categories": "FM"}}, "categories = 'FM' should be a valid tuple"),
        (
            {"day": {"date": ["2020-01-01", "2019-01-01"]}},
            r"date = .* is wrong: must be \[first, last\]: two ISO dates",
        ),
        ({"day": {"date": ["01.02.2020", "2021-01-01"]}}, "two ISO dates"),
        ({"day": {"date": ["2020-01-01", "2021-01-01"], "format": "%H"}}, 'format = "%H" does not describe a date'),
        ({"x": {"flag": ["a", "b", "c"]}}, "flag must list 2 different values"),
        ({"x": {"label": ["a"]}}, "label must list at least 2 different values"),
        ({"x": {"count": [-1, 5]}}, "must not be negative"),
    ],
)
def test_wrong_declarations_are_refused(columns, message):
    with pytest.raises(TacitError, match=message):
        TableSchema.parse({"z": {"range": [0, 1]}, **columns, **LABEL})


@pytest.mark.parametrize(
    ("columns", "missing", "message"),
    [
        ({"age": {"range": [0, 1]}}, "middle", "no column is declared as the target, such as outcome = "),
        (LABEL, "middle", "no column is declared from which to predict"),
        ({"age": {"range": [0, 1]}, "y": {"target": [0, 1]}, **LABEL}, "middle", "only one column .* got: outcome, y"),
        ({"age": {"range": [0, 1]}, "y": {"flag": [0, 1]}, **LABEL}, "middle", "only one column .* or several flags"),
        ({"age": {"range": [0, 1]}, **LABEL}, "midle", 'unknown value of missing "midle"; did you mean "middle"?'),
    ],
)
def test_incomplete_tables_are_refused(columns, missing, message):
    with pytest.raises(TacitError, match=message):
        TableSchema.parse(columns, missing)


def test_columns_must_be_the_declared_ones():
    schema = TableSchema.parse({"age": {"range": [0, 1]}, "id": "drop", **LABEL})
    frame = pd.DataFrame({"age": [1], "outcome": ["no"]})
    with pytest.raises(TacitError, match="the table has no column 'age'"):
        schema.prepare(frame[["outcome"]])
    with pytest.raises(
        TacitError, match=r'not declared in data.columns: weight, x\. Declare them, or add "weight" = "drop"'
    ):
        schema.check_columns(["age", "outcome", "weight", "x"], "the table")
    with pytest.raises(TacitError, match="has several columns 'age'"):
        schema.check_columns(["age", "outcome", "age"], "the table")
    schema.check_columns(["outcome", "age"], "the table")
    schema.check_columns(["age", "other"], "the table", targets=False)


def test_a_private_range_is_scaled_by_its_public_bounds():
    schema = TableSchema.parse({"age": {"range": "private", "within": [0, 10]}, **LABEL})
    assert list(schema.private_columns) == ["age"]
    assert schema.columns["age"].bounds == (0, 10)
    assert schema.prepare(pd.DataFrame({"age": [10, 99]})).tolist() == [[1], [1]]
    assert TableSchema.from_dict(schema.to_dict()) == schema
