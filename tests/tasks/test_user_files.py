"""The user's own npz and csv files."""

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.tasks.data import Dataset, datasets

X = np.arange(20.0).reshape(10, 2)
Y = np.repeat([0, 1], 5)
NAMED = {"label": "ill"}
HINT = "; if the first line has column names, set data.header = true$"
ROWS = [f"{a},{b},{'yes' if c else 'no'}" for (a, b), c in zip(X, Y, strict=True)]


def npz(folder, options=None, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return datasets.build("npz", {"path": str(folder / "mine.npz"), **(options or {})})


def csv(folder, rows, **options):
    (folder / "mine.csv").write_text("\n".join(rows), encoding="utf-8")
    return datasets.build("csv", {"path": str(folder / "mine.csv"), **options})


def assert_same(one, other):
    for part in ("x", "y", "test_x", "test_y"):
        assert getattr(one, part).tolist() == getattr(other, part).tolist()
    assert (one.classes, one.declared, one.split) == (other.classes, other.declared, other.split)


@pytest.mark.parametrize("key", ["x", "X"])
@pytest.mark.parametrize("options", [{}, {"labels": [0, 1, 2], "split": "index", "test": 0.4, "seed": 3}])
def test_npz(tmp_path, key, options):
    data = npz(tmp_path, options, **{key: X, "y": Y})
    assert data.name == "mine"
    assert len(data.y) + len(data.test_y) == 10
    assert_same(data, Dataset.from_arrays(X, Y, **options))


def test_npz_with_test_arrays(tmp_path):
    data = npz(tmp_path, x=X, y=Y, x_test=X[:3], y_test=Y[:3], other=X)
    assert (len(data.x), len(data.test_x), data.split) == (10, 3, None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, 'mine.npz has no array "y"; it has: x'),
        ({"data": X, "y": Y}, 'has no array "x"; it has: data, y'),
        ({"x": X, "y": Y, "x_test": X}, 'has no array "y_test"'),
        ({"x": X, "y": Y, "y_test": Y}, 'has no array "x_test"'),
        ({"x": X.astype(object), "y": Y}, "damaged or not a .npz file of numeric arrays"),
        ({"x": X * np.nan, "y": Y}, "data set mine: x has a NaN or infinite value, first at row 0, column 0"),
    ],
)
def test_invalid_npz_is_refused(tmp_path, arrays, message):
    with pytest.raises(TacitError, match=message):
        npz(tmp_path, **arrays)


@pytest.mark.parametrize("keep", [0, 10, 200, 600])
def test_truncated_npz_is_refused(tmp_path, keep):
    npz(tmp_path, x=X, y=Y)
    file = tmp_path / "mine.npz"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(TacitError, match=r"damaged or not a \.npz file"):
        datasets.build("npz", {"path": file})


def test_npy_is_refused(tmp_path):
    np.save(tmp_path / "mine.npy", X)
    with pytest.raises(TacitError, match=r"damaged or not a \.npz file"):
        datasets.build("npz", {"path": tmp_path / "mine.npy"})


@pytest.mark.parametrize("name", ["npz", "csv"])
def test_missing_file_is_refused(tmp_path, name):
    with pytest.raises(TacitError, match=f"there is no file {tmp_path}/none"):
        datasets.build(name, {"path": tmp_path / "none"})


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (ROWS, {}),
        (["a,b,ill", *ROWS], {"header": True}),
        (["a,b,ill", *ROWS], {"label": "ill"}),
        (["1,2,3", *ROWS], {"label": 2, "header": True}),
        (["\ufeffa, b, ill", *ROWS, ""], {"label": "ill"}),
    ],
)
def test_csv(tmp_path, rows, options):
    assert_same(csv(tmp_path, rows, **options), Dataset.from_arrays(X, np.where(Y, "yes", "no")))
    declared = {"labels": ["yes", "no"], "split": "index", "test": 0.3, "seed": 4}
    expected = Dataset.from_arrays(X, np.where(Y, "yes", "no"), **declared)
    assert_same(csv(tmp_path, rows, **options, **declared), expected)


def test_csv_with_test_file(tmp_path):
    (tmp_path / "test.csv").write_text("a,b,ill\n1,2,yes\n3,4,no\n")
    rows, options = ["a,b,ill", *ROWS], {**NAMED, "labels": ["no", "yes"], "test_path": str(tmp_path / "test.csv")}
    data = csv(tmp_path, rows, **options)
    assert (len(data.y), data.test_x.tolist(), data.test_y.tolist()) == (10, [[1, 2], [3, 4]], [1, 0])
    assert data.split is None
    (tmp_path / "test.csv").write_text("b,a,ill\n1,2,yes\n")
    with pytest.raises(TacitError, match=r"test.csv must have the columns of .*mine.csv, in the same order"):
        csv(tmp_path, rows, **options)
    (tmp_path / "test.csv").write_text("a,b,ill\n1,2,maybe\n")
    with pytest.raises(TacitError, match=r"test.csv: line 2, column ill is not one of the labels no, yes"):
        csv(tmp_path, rows, **options)


def test_csv_with_numeric_label_in_any_column(tmp_path):
    rows = [f"{10 * c},{a},{b}" for (a, b), c in zip(X, Y, strict=True)]
    data = csv(tmp_path, rows, label=0)
    assert data.y.tolist() == (data.x[:, 0] >= 10).long().tolist()
    # 2 sorts before 10 as a number, after it as text
    rows = [f"{a},{b},{2 if c else 10}" for (a, b), c in zip(X, Y, strict=True)]
    assert csv(tmp_path, rows).y.tolist() == (csv(tmp_path, rows).x[:, 0] < 10).long().tolist()


def test_csv_with_labels(tmp_path):
    data = csv(tmp_path, ROWS, labels=["yes", "no", "unknown"])
    assert (data.classes, data.declared) == (3, True)
    assert data.y.tolist() == (data.x[:, 0] < 10).long().tolist()
    numbers = [row.replace("yes", "1").replace("no", "0") for row in ROWS]
    for labels in (["1", "0"], [1, 0], [1.0, 0]):
        data = csv(tmp_path, numbers, labels=labels)
        assert data.y.tolist() == (data.x[:, 0] < 10).long().tolist()


@pytest.mark.parametrize("first", ["0.0,1.0,no", "0.0,1.0,1", "7,8,9"])
def test_no_cell_decides_whether_there_is_a_header(tmp_path, first):
    """The line is a record without a header, and no record with one, whatever it contains."""
    labels = ["no", "yes", "1", "9"]
    with_line, without = (csv(tmp_path, rows, labels=labels, test=0.0) for rows in ([first, *ROWS], ROWS))
    assert (len(with_line.y), len(without.y)) == (11, 10)
    named = csv(tmp_path, [first, *ROWS], labels=labels, header=True, test=0.0)
    assert named.x.tolist() == without.x.tolist()


@pytest.mark.parametrize("cell", ["s3cret", "-1e999", "nan", "4711"])
@pytest.mark.parametrize("column", [0, 2])
def test_errors_contain_no_cell(tmp_path, cell, column):
    cells = ["1", "2", "5"]
    cells[column] = cell
    rows = ["1,2,3", "1,2,5", ",".join(cells)]
    if (cell, column) == ("4711", 0):
        assert len(csv(tmp_path, rows, labels=[3, 5], test=0.0).y) == 3
        return
    for labels in ([3, 5], ["3", "5"]):
        with pytest.raises(TacitError, match=rf"mine.csv: line 3, column {column} is not ") as refusal:
            csv(tmp_path, rows, labels=labels)
        assert cell not in str(refusal.value).replace(str(tmp_path), "")


def test_a_file_has_no_limit_on_its_records(tmp_path):
    """The first records of each class would depend on the labels of other records."""
    for name in ("csv", "npz"):
        with pytest.raises(TacitError, match=f'unknown parameter of data set {name} "limit"'):
            datasets.build(name, {"path": tmp_path / "mine", "limit": 5})


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["a,b,ill", "1,2,no", "3,x,no"], NAMED, "mine.csv: line 3, column b is not a finite number$"),
        (["a,b,ill", "1,,no"], NAMED, "line 2, column b is not a finite number$"),
        (["a,b,ill", "1,nan,no"], NAMED, "line 2, column b is not a finite number$"),
        (["1,2,no", "x,2,no"], {}, "line 2, column 0 is not a finite number$"),
        (["a,b,ill", "1,2,no"], {}, f"line 1, column 0 is not a finite number{HINT}"),
        (["a,b,ill", "1,2,no"], {"header": False}, f"line 1, column 0 is not a finite number{HINT}"),
        (["a,b,ill", "1,2,no"], {"labels": ["no", "yes"]}, f"line 1, column 2 is not one of the labels no, yes{HINT}"),
        (["a,b,ill", "1,2,0"], {"labels": [0, 1]}, f"column 2 is not a number, as the declared labels are{HINT}"),
        (["1,2,no", "1,2"], {}, "line 2 has 2 values, line 1 has 3"),
        (ROWS, NAMED, 'the first line, which must have the column names, has no column "ill"$'),
        (["a,ill,ill", *ROWS], NAMED, 'has several columns "ill"$'),
        (ROWS, {**NAMED, "header": False}, 'label = "ill" is a column name, but header = false: set label to an index'),
        (ROWS, {"label": 3}, "label column 3 does not exist; the columns are 0 … 2"),
        ([*ROWS, "1,2,"], {}, "line 11, column 2 has no label$"),
        ([*ROWS, "1,2,3"], {"labels": ["yes", "no"]}, "line 11, column 2 is not one of the labels yes, no$"),
        ([], {}, "is empty; it needs one record per line"),
        (["a,b,ill"], NAMED, "data set mine: there are no records"),
        (["no"] * 4, {}, "the records of x have no features"),
        (['1,2,"no'], {}, "not a UTF-8 text file of comma-separated values"),
    ],
)
def test_invalid_csv_is_refused(tmp_path, rows, options, message):
    with pytest.raises(TacitError, match=message):
        csv(tmp_path, rows, **options)


def test_binary_file_is_refused_as_csv(tmp_path):
    (tmp_path / "mine.csv").write_bytes(bytes(range(256)))
    with pytest.raises(TacitError, match=r"not a UTF-8 text file of comma-separated values$"):
        datasets.build("csv", {"path": tmp_path / "mine.csv"})
