"""Tables in files: every usual form of the same table gives the same records."""

import csv
import gzip
import logging

import numpy as np
import pandas as pd
import pytest

from tacit.errors import TacitError
from tacit.tasks import Dataset, TableSchema, join_datasets, open_table
from tacit.tasks.data.table_reader import read_table
from tacit.tasks.data.table_source import FrameTable

SCHEMA = TableSchema.parse(
    {
        "age": {"range": [0, 110]},
        "crp": {"range": [0, 500], "scale": "log"},
        "city": {"categories": ["Zürich", "a, b", 'the "old" town', "two\nlines"]},
        "visit": {"date": ["2015-01-01", "2025-12-31"]},
        "outcome": {"label": ["no", "yes"]},
    },
    missing="indicator",
)
FRAME = pd.DataFrame(
    {
        "age": ["31", "72", "", "45.5", "200"],
        "crp": ["0.5", "12.25", "499", "", "7"],
        "city": ["Zürich", "a, b", 'the "old" town', "two\nlines", "elsewhere"],
        "visit": ["2016-02-03", "2020-12-31", "garbage", "", "2015-01-01"],
        "outcome": ["no", "yes", "yes", "no", "no"],
    }
)


def records(path, **options):
    return read_table(open_table(path, SCHEMA, multiline=True, **options), SCHEMA)


@pytest.fixture
def expected():
    return read_table(FrameTable(FRAME), SCHEMA)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("compressed", [False, True])
def test_separators_encodings_and_compression(tmp_path, expected, separator, encoding, compressed):
    path = tmp_path / ("records.csv.gz" if compressed else "records.csv")
    FRAME.to_csv(path, sep=separator, encoding=encoding, index=False)
    found = records(path, encoding="cp1252" if encoding == "cp1252" else None)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_line_ends_and_quotes(tmp_path, end, quoting):
    path = tmp_path / "records.csv"
    frame = FRAME[FRAME["city"] != "two\nlines"]
    path.write_bytes(frame.to_csv(index=False, quoting=quoting, lineterminator=end).encode())
    for mine, other in zip(records(path), read_table(FrameTable(frame), SCHEMA), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_decimal_comma(tmp_path, expected):
    path = tmp_path / "records.csv"
    comma = FRAME.assign(age=FRAME["age"].str.replace(".", ","), crp=FRAME["crp"].str.replace(".", ","))
    comma.to_csv(path, sep=";", index=False)
    for options in ({}, {"decimal": ","}):
        np.testing.assert_array_equal(records(path, **options)[0], expected[0])
    comma.to_csv(path, index=False)  # quoted cells such as "45,5", with commas between the cells
    np.testing.assert_array_equal(records(path, decimal=",")[0], expected[0])


def test_parquet_with_types(tmp_path, expected):
    path = tmp_path / "records.parquet"
    numbers = FRAME.assign(
        age=pd.to_numeric(FRAME["age"]),
        crp=pd.to_numeric(FRAME["crp"]),
        city=FRAME["city"].astype("category"),
        visit=pd.to_datetime(FRAME["visit"], errors="coerce"),
    )
    numbers.to_parquet(path)
    for mine, other in zip(records(path), expected, strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(read_table(FrameTable(numbers), SCHEMA)[0], expected[0])


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_chunks_do_not_change_the_records(tmp_path, expected, chunk):
    path = tmp_path / "records.csv"
    FRAME.to_csv(path, index=False)
    x, y, _ = read_table(open_table(path, SCHEMA, multiline=True), SCHEMA, chunk_rows=chunk)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y, expected[1])
    assert (x.dtype, y.dtype) == (np.float32, np.int64)


def test_needed_memory_is_logged_before_the_records_are_read(tmp_path, caplog, monkeypatch):
    path = tmp_path / "records.csv"
    FRAME.to_csv(path, index=False)
    source = open_table(path, SCHEMA, multiline=True)

    def unread(columns, rows):
        raise AssertionError("read")

    monkeypatch.setattr(source, "chunks", unread)
    with caplog.at_level(logging.INFO), pytest.raises(AssertionError, match="read"):
        read_table(source, SCHEMA)
    needed = 2 * 5 * (4 * SCHEMA.inputs[0] + 8) + 200 * 5 * 5
    (message,) = caplog.messages
    assert message.startswith(f"Reading {path}: 5 records, which need about {needed / 1e6:.3g} MB of memory.")
    assert message.endswith(f"To check its cells: tacit inspect {path} --check CONFIG")


def test_order_of_columns_does_not_matter(tmp_path, expected):
    path = tmp_path / "records.csv"
    FRAME[["outcome", "visit", "crp", "age", "city"]].to_csv(path, index=False)
    np.testing.assert_array_equal(records(path)[0], expected[0])


def test_a_column_that_is_not_declared_is_refused(tmp_path):
    path = tmp_path / "records.csv"
    FRAME.assign(patient_id=range(5)).to_csv(path, index=False)
    with pytest.raises(TacitError, match=r"columns that are not declared in data.columns: patient_id\. Declare them"):
        records(path)


@pytest.mark.parametrize(
    "content", [b"", b"\x1f\x8b\x08 damaged", gzip.compress(b"age", mtime=0)[:-4]], ids=["empty", "header", "end"]
)
def test_damaged_files_are_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "records.csv.gz"
    path.write_bytes(content)
    with pytest.raises(TacitError, match=r"damaged or not a gzip file|is empty|has no column"):
        records(path)


def test_data_frame_gives_a_data_set():
    data = Dataset.from_frame(FRAME, SCHEMA.to_dict()["columns"], missing="indicator", test=0.0)
    assert data.inputs == SCHEMA.inputs
    assert data.target.labels == ("no", "yes")
    assert data.y.tolist() == [0, 1, 1, 0, 0]


def test_data_set_has_the_decimal_mark_of_its_table(tmp_path):
    marks = {}
    for separator in (",", ";"):
        path = tmp_path / f"{ord(separator)}.csv"
        FRAME.to_csv(path, index=False, sep=separator)
        marks[separator] = Dataset.from_table(open_table(path, SCHEMA), SCHEMA, 0.0, 0, "data", "content")
    assert [marks[separator].decimal for separator in (",", ";")] == [".", "both"]
    assert join_datasets([marks[","], marks[","]])[0].decimal == "."
    assert join_datasets([marks[","], marks[";"]])[0].decimal == "both"
