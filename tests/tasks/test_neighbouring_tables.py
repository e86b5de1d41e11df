"""Tables that differ in one row, which may contain anything: all other records, shapes and messages stay the same."""

import csv
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tacit.errors import TacitError
from tacit.tasks import TableSchema, open_table
from tacit.tasks.data.split import is_held_out
from tacit.tasks.data.table_reader import read_table
from tests.cli.conftest import setting

HEADER = "age,sex,visit,notes,outcome"
ROWS = [f'{20 + k},{"FM"[k % 2]},2020-01-{k + 1:02d},"fine, {k}",{"no" if k % 3 else "yes"}' for k in range(12)]
COLUMNS = {
    "age": {"range": [0, 110]},
    "sex": {"categories": ["F", "M"]},
    "visit": {"date": ["2015-01-01", "2025-12-31"]},
    "notes": "drop",
    "outcome": {"label": ["no", "yes"]},
}
GARBAGE = [
    '"',
    'x,"open quote,,',
    '"open at the start',
    'a,b,c"d,e""f,"',
    ",,,,",
    ",",
    "one cell",
    "far,too,many,cells,in,this,row,of,the,table",
    "\x00\x00,\x00,,,",
    "1e999,F,9999-99-99,,yes",
    "nan,-inf,,,maybe",
    "-" + "9" * 5000 + ",M,2020-01-01,,no",
    "\ufeff42,F,2020-01-01,,no",
    "٣٤,Ｆ,2020-01-01,\u2028\x85\x0b\x0c\x1c,no",
    "'; DROP TABLE patients; --",
    "age,sex,visit,notes,outcome",
    "#,#,#,#,#",
]
schema = TableSchema.parse(COLUMNS, "indicator")


def write(path, rows, raw=None):
    """Write a table; `raw` replaces the bytes of row 5."""
    lines = [line.encode("utf-8", "surrogatepass") for line in [HEADER, *rows]]
    if raw is not None:
        lines[6] = raw
    path.write_bytes(b"\n".join(lines) + b"\n")


def read(path):
    """Records, targets, held-out records, and everything that was printed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x, y, _ = read_table(open_table(path, schema), schema)
    return x, y, is_held_out(x, y, 0.3, "content", 0, "data"), [str(each.message) for each in caught]


def check_neighbours(folder, raw):
    write(folder / "one.csv", ROWS)
    write(folder / "other.csv", ROWS, raw)
    one, other = read(folder / "one.csv"), read(folder / "other.csv")
    assert other[0].shape == one[0].shape == (12, *schema.inputs)
    assert other[1].shape == one[1].shape
    assert np.isfinite(other[0]).all()
    assert np.abs(other[0]).max() <= 1
    rest = np.arange(12) != 5
    for mine, theirs in zip(one[:3], other[:3], strict=True):
        np.testing.assert_array_equal(mine[rest], theirs[rest])
    assert one[3] == other[3] == []


@pytest.mark.parametrize("row", GARBAGE)
def test_garbage_in_one_row_changes_this_record_only(tmp_path, row):
    check_neighbours(tmp_path, row.encode())


@settings(max_examples=300)
@given(raw=st.binary(min_size=1, max_size=40))
def test_any_bytes_in_one_row_change_this_record_only(tmp_path_factory, raw):
    raw = raw.replace(b"\n", b"").replace(b"\r", b"") or b","
    check_neighbours(tmp_path_factory.mktemp("tables"), raw if raw.strip(b" ") else b",")


@settings(max_examples=100)
@given(cells=st.lists(st.text(st.characters(exclude_characters="\r\n"), max_size=8), min_size=5, max_size=5))
def test_any_quoted_cells_in_one_row_change_this_record_only(tmp_path_factory, cells):
    row = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
    check_neighbours(tmp_path_factory.mktemp("tables"), row.encode("utf-8", "replace"))


@settings(max_examples=100)
@given(
    cells=st.lists(
        st.sampled_from([*ROWS, '"', "x\n", "\n\n", "a,b\r\nc"]) | st.text(max_size=8), min_size=5, max_size=5
    )
)
def test_records_of_a_file_with_line_breaks_are_those_that_were_written(tmp_path_factory, cells):
    """Also if a line inside of a cell looks like a record."""
    path = tmp_path_factory.mktemp("tables") / "records.csv"
    written = [next(csv.reader([row])) for row in ROWS]
    written[5] = [cell.encode("utf-8", "replace").decode().replace("\x00", "") or "x" for cell in cells]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER.split(","), *written])
    x, *_ = read_table(open_table(path, schema, multiline=True), schema)
    write(path, ROWS)
    expected, *_ = read_table(open_table(path, schema), schema)
    assert x.shape == expected.shape
    np.testing.assert_array_equal(np.delete(x, 5, 0), np.delete(expected, 5, 0))


def test_a_cell_with_records_in_it_is_one_record(tmp_path):
    pasted = "\n".join(["pasted:", *ROWS, 'and "more"']).replace('"', '""')
    write(tmp_path / "records.csv", ROWS, f'30,F,2020-01-01,"{pasted}",yes'.encode())
    x, y, _ = read_table(open_table(tmp_path / "records.csv", schema, multiline=True), schema)
    assert x.shape == (12, *schema.inputs)
    assert y[5] == 1


def test_a_quoted_cell_without_end_is_refused_if_cells_have_line_breaks(tmp_path):
    write(tmp_path / "records.csv", ROWS, b'30,F,2020-01-01,"open,yes')
    with pytest.raises(TacitError, match="quoted cell that does not end"):
        read_table(open_table(tmp_path / "records.csv", schema, multiline=True), schema)


CONFIG = """
rounds = 2
[data]
name = "csv"
path = "records.csv"
missing = "indicator"
[data.columns]
age = {range = [0, 110]}
sex = {categories = ["F", "M"]}
visit = {date = ["2015-01-01", "2025-12-31"]}
notes = "drop"
outcome = {label = ["no", "yes"]}
[graph]
name = "ring"
nodes = 3
[batch]
size = 8
[privacy]
epsilon = 3.0
delta = 1e-3
"""


def outcome(tacit, tmp_path, raw, name):
    """What `tacit train` prints and writes, without numbers that are measured or times."""
    rows = ROWS * 10
    write(tmp_path / "records.csv", rows, raw)
    (tmp_path / "config.toml").write_text(CONFIG)
    ended = tacit("train", "config.toml", "--out", name, *setting("data.split=index", "batch.relation=replace-one"))
    files = sorted(path.name for path in (tmp_path / name).iterdir())
    config = (tmp_path / name / "config.toml").read_text()
    printed = (ended.out + ended.err).replace(name, "OUT").splitlines()
    return ended.code, [line for line in printed if "accuracy" not in line], files, config


@pytest.mark.parametrize("raw", [b'"', b"\xff\xfe\x00,\x00", b"1e999,?,?,?,?", b",,,,"])
def test_training_prints_and_writes_the_same_for_neighbouring_tables(tacit, tmp_path, monkeypatch, raw):
    monkeypatch.chdir(tmp_path)
    one, other = outcome(tacit, tmp_path, None, "run-a"), outcome(tacit, tmp_path, raw, "run-b")
    assert one == other
    assert one[0] == 0


def parquet_columns():
    """Columns of every type of text and date, and one cell for each that is not valid."""
    texts, bad = ["F", "M", "F"], b"\xff\xfe"
    large = pa.array([b"F", bad, b"F"], pa.large_binary())
    days = pa.array([18_000, 10_000_000, 18_001], pa.int32())
    yield "large text", pa.array(texts, pa.large_string()), large.view(pa.large_string())
    yield "text", pa.array(texts), pa.array([b"F", bad, b"F"], pa.binary()).view(pa.string())
    yield "categories", pa.array(texts).dictionary_encode(), pa.array(["F", None, "F"]).dictionary_encode()
    yield "days", pa.array([18_000, 18_005, 18_001], pa.int32()).view(pa.date32()), days.view(pa.date32())
    far = pa.array([0, 2**62, 86_400_000], pa.int64()).view(pa.date64())
    yield "milliseconds", pa.array([0, 86_400_000, 86_400_000], pa.int64()).view(pa.date64()), far


PARQUET = list(parquet_columns())


@pytest.mark.parametrize(("name", "clean", "damaged"), PARQUET, ids=[name for name, *_ in PARQUET])
def test_a_cell_of_a_parquet_file_that_is_not_valid_is_missing(tmp_path, name, clean, damaged):
    is_date = "date" in str(clean.type)
    declared = {"date": ["2015-01-01", "2025-12-31"]} if is_date else {"categories": ["F", "M"]}
    table = TableSchema.parse({"cell": declared, "y": {"label": [0, 1]}}, "indicator")
    found = []
    for column in (clean, damaged):
        parquet.write_table(pa.table({"cell": column, "y": [0, 1, 0]}), tmp_path / "records.parquet")
        found.append(read_table(open_table(tmp_path / "records.parquet", table), table)[0])
    assert found[0].shape == found[1].shape
    np.testing.assert_array_equal(found[0][[0, 2]], found[1][[0, 2]])


def test_a_cell_can_have_any_number_of_lines(tmp_path):
    note = "line\n" * 3000 + '""quoted""'
    write(tmp_path / "records.csv", ROWS, f'30,F,2020-01-01,"{note}",yes'.encode())
    x, y, _ = read_table(open_table(tmp_path / "records.csv", schema, multiline=True), schema)
    assert (x.shape, y[5]) == ((12, *schema.inputs), 1)


def test_line_feeds_inside_of_old_lines_do_not_change_other_records(tmp_path):
    path = tmp_path / "records.csv"
    path.write_bytes("\r".join([HEADER, *ROWS]).encode())
    expected, *_ = read_table(open_table(path, schema), schema)
    path.write_bytes("\r".join([HEADER, *ROWS[:5], "30,F,a\nb,,yes", *ROWS[6:]]).encode())
    x, *_ = read_table(open_table(path, schema), schema)
    np.testing.assert_array_equal(np.delete(x, 5, 0), np.delete(expected, 5, 0))


@pytest.mark.parametrize("encoding", ["utf-7", "hz", "idna", "rot13", "no such"])
def test_encodings_in_which_one_line_changes_others_are_refused(tmp_path, encoding):
    write(tmp_path / "records.csv", ROWS)
    with pytest.raises(TacitError, match="unknown encoding"):
        open_table(tmp_path / "records.csv", schema, encoding=encoding)
