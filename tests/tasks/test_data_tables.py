"""The user's own npz and csv files."""

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.tasks.data import datasets

X = np.arange(20.0).reshape(10, 2)
Y = np.repeat([0, 1], 5)
ROWS = [f"{a},{b},{'yes' if c else 'no'}" for (a, b), c in zip(X, Y, strict=True)]


def npz(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return datasets.build("npz", {"path": str(folder / "mine.npz")})


def csv(folder, rows, **options):
    (folder / "mine.csv").write_text("\n".join(rows), encoding="utf-8")
    return datasets.build("csv", {"path": str(folder / "mine.csv"), **options})


@pytest.mark.parametrize("key", ["x", "X"])
def test_npz(tmp_path, key):
    data = npz(tmp_path, **{key: X, "y": Y})
    assert (data.name, len(data.x), len(data.test_x)) == ("mine", 8, 2)


def test_npz_with_test_arrays(tmp_path):
    data = npz(tmp_path, x=X, y=Y, x_test=X[:3], y_test=Y[:3], other=X)
    assert (len(data.x), len(data.test_x)) == (10, 3)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, 'mine.npz has no array "y"; it has: x'),
        ({"data": X, "y": Y}, 'has no array "x"; it has: data, y'),
        ({"x": X, "y": Y, "x_test": X}, 'has no array "y_test"'),
        ({"x": X, "y": Y, "y_test": Y}, 'has no array "x_test"'),
        ({"x": X.astype(object), "y": Y}, "damaged or not a .npz file of numeric arrays"),
        ({"x": X * np.nan, "y": Y}, "data set mine: x has 20 NaN or infinite values"),
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
        (["a,b,ill", *ROWS], {}),
        (["a,b,ill", *ROWS], {"label": "ill"}),
        (["1,2,3", *ROWS], {"label": 2, "header": True}),
        (["\ufeffa, b, ill", *ROWS, ""], {"label": "ill"}),
    ],
)
def test_csv(tmp_path, rows, options):
    data = csv(tmp_path, rows, **options)
    assert (data.inputs, data.classes, len(data.x), len(data.test_x)) == ((2,), 2, 8, 2)
    assert data.y.tolist() == (data.x[:, 0] >= 10).long().tolist()


def test_csv_with_numeric_label_in_any_column(tmp_path):
    rows = [f"{10 * c},{a},{b}" for (a, b), c in zip(X, Y, strict=True)]
    data = csv(tmp_path, rows, label=0)
    assert data.y.tolist() == (data.x[:, 0] >= 10).long().tolist()
    # 2 sorts before 10 as a number, after it as text
    rows = [f"{a},{b},{2 if c else 10}" for (a, b), c in zip(X, Y, strict=True)]
    assert csv(tmp_path, rows).y.tolist() == (csv(tmp_path, rows).x[:, 0] < 10).long().tolist()


def test_csv_with_labels(tmp_path):
    data = csv(tmp_path, ROWS, labels=["yes", "no", "unknown"])
    assert data.classes == 3
    assert data.y.tolist() == (data.x[:, 0] < 10).long().tolist()
    numbers = [row.replace("yes", "1").replace("no", "0") for row in ROWS]
    assert csv(tmp_path, numbers, labels=["1", "0"]).y.tolist() == data.y.tolist()
    assert csv(tmp_path, numbers, labels=[1, 0]).y.tolist() == data.y.tolist()


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["a,b,ill", "1,2,no", "3,x,no"], {}, 'mine.csv: line 3, column b: "x" is not a finite number'),
        (["a,b,ill", "1,,no"], {}, 'line 2, column b: "" is not a finite number'),
        (["a,b,ill", "1,nan,no"], {}, 'line 2, column b: "nan" is not a finite number'),
        (["1,2,no", "x,2,no"], {}, 'line 2, column 0: "x" is not a finite number'),
        (["a,b,ill", "1,2,no"], {"header": False}, 'line 1, column 0: "a" is not a finite number'),
        (["1,2,no", "1,2"], {}, "line 2 has 2 values, line 1 has 3"),
        (ROWS, {"label": "ill"}, 'label column "ill" does not exist; the first line is: 0.0, 1.0, no'),
        (ROWS, {"label": 3}, "label column 3 does not exist; the columns are 0 … 2"),
        ([*ROWS, "1,2,"], {}, "line 11 has no label"),
        (ROWS, {"labels": ["yes"]}, "label no at row 0 of y"),
        ([], {}, "is empty; it needs one record per line"),
        (["a,b,ill"], {}, "x is empty"),
        (["no"] * 4, {}, "x is empty"),
        (['1,2,"no'], {}, "not a UTF-8 text file of comma-separated values"),
    ],
)
def test_invalid_csv_is_refused(tmp_path, rows, options, message):
    with pytest.raises(TacitError, match=message):
        csv(tmp_path, rows, **options)


def test_binary_file_is_refused_as_csv(tmp_path):
    (tmp_path / "mine.csv").write_bytes(bytes(range(256)))
    with pytest.raises(TacitError, match="not a UTF-8 text file"):
        datasets.build("csv", {"path": tmp_path / "mine.csv"})
