"""Tables: three LIBSVM data sets, and the user's npz and csv files."""

import csv as csv_module
import hashlib
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data.checks import Label
from tacit.tasks.data.dataset import Dataset, Normalise, datasets
from tacit.tasks.data.files import DataFile

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
LIBSVM_DIGESTS = {
    "a9a": "6e5185cecd7829df8cf37437adece2edbe58a4102dc0e95aeb3b275359df8a6b",
    "a9a.t": "666a35bdca57674e06e552c42dd27e18698b91a7372739c75c08bf6f485160a1",
    "w8a": "498eac95ea22fd0a7372d7903c1609dbb45dbea9a1e53c14a4d17a3d1e596353",
    "mushrooms": "89ca8acd811c3bf412320f4207ee20200bf70a896090b76efe0f66db9487e7c0",
}


@datasets.register("a9a")
def a9a(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """LIBSVM a9a (UCI Adult): 32,561 + 16,281 people, 123 binary features, is income over 50,000 dollars?"""
    data = Dataset.from_arrays(*_libsvm("a9a", 123), test=_libsvm("a9a.t", 123), name="a9a")
    return data.limited(limit).normalised(normalise)


@datasets.register("w8a")
def w8a(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """LIBSVM w8a: 49,749 web pages, 300 binary features, 3 % positive; a fixed 20 % is held out."""
    return Dataset.from_arrays(*_libsvm("w8a", 300), name="w8a").limited(limit).normalised(normalise)


@datasets.register("mushrooms")
def mushrooms(limit: int | None = None, normalise: Normalise = "none") -> Dataset:
    """LIBSVM mushrooms: 8,124 mushrooms, 112 binary features, edible or not; a fixed 20 % is held out."""
    data = Dataset.from_arrays(*_libsvm("mushrooms", 112), name="mushrooms")
    return data.limited(limit).normalised(normalise)


@datasets.register("npz")
def npz(
    path: Path,
    labels: list[Label] | None = None,
    test: float = 0.2,
    seed: int = 0,
    limit: int | None = None,
    normalise: Normalise = "none",
) -> Dataset:
    """Your own numpy .npz file with arrays x and y, and optionally x_test and y_test."""
    path = Path(path)
    keys = ("x", "y", "x_test", "y_test")
    try:
        # unpickling would run code from the file
        with _existing(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            names = {("x" if name == "X" and "x" not in file else name): name for name in file.files}
            found = {key: file[names[key]] for key in keys if key in names}
    except (
        OSError,
        EOFError,
        ValueError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise TacitError(f"{path} is damaged or not a .npz file of numeric arrays ({error})") from None
    absent = [key for key in keys[:2] if key not in found]
    if absent or len(found) == 3:
        missing = absent[0] if absent else ("x_test" if "y_test" in found else "y_test")
        raise TacitError(f'{path} has no array "{missing}"; it has: {", ".join(names) or "no arrays"}')
    held = (found["x_test"], found["y_test"]) if "x_test" in found else test
    data = Dataset.from_arrays(found["x"], found["y"], held, seed, path.stem, labels)
    return data.limited(limit).normalised(normalise)


@datasets.register("csv")
def csv(
    path: Path,
    label: str | int = -1,
    header: bool | None = None,
    labels: list[Label] | None = None,
    test: float = 0.2,
    seed: int = 0,
    limit: int | None = None,
    normalise: Normalise = "none",
) -> Dataset:
    """Your own .csv file: one record per line, numbers in every column except the label.

    Args:
        path: The file.
        label: The name of the label's column, or its index from 0 (−1: the last).
        header: Whether the first line has column names; None: yes if it has text outside the label's column.
        labels: The label values (numbers or text) in the order of the classes; None: sorted. Required if sites with
            their own files train together.
        test: The share of the records to hold out for testing.
        seed: The seed of the split.
        limit: The number of training records to use; None: all.
        normalise: "unit" divides every record by its L2 norm.
    """
    path = Path(path)
    try:
        with _existing(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv_module.reader(file, strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv_module.Error) as error:
        raise TacitError(f"{path} is not a UTF-8 text file of comma-separated values ({error})") from None
    if not rows:
        raise TacitError(f"{path} is empty; it needs one record per line")
    width = len(rows[0][1])
    ragged = next(((line, row) for line, row in rows if len(row) != width), None)
    if ragged:
        raise TacitError(f"{path}: line {ragged[0]} has {len(ragged[1])} values, line {rows[0][0]} has {width}")
    names, column = _columns(path, rows[0][1], label, header)
    records = rows[1:] if names else rows
    y = [row.pop(column).strip() for _, row in records]
    features = [name for i, name in enumerate(names or map(str, range(width))) if i != column]
    x = np.array([_numbers(path, line, row, features) for line, row in records]).reshape(len(records), width - 1)
    blank = next((line for (line, _), value in zip(records, y, strict=True) if not value), None)
    if blank is not None:
        raise TacitError(f"{path}: line {blank} has no label")
    numeric = all(map(_is_number, y)) and not any(isinstance(value, str) for value in labels or ())
    named = np.array([float(value) for value in y]) if numeric else np.array(y)
    data = Dataset.from_arrays(x, named, test, seed, path.stem, labels)
    return data.limited(limit).normalised(normalise)


def _libsvm(name: str, features: int) -> tuple[NDArray[Any], NDArray[Any]]:
    path = DataFile(f"libsvm/{name}", LIBSVM_DIGESTS[name], (LIBSVM + name,), measure=_digest).get()
    x, y = _parsed(path, features)
    return x.toarray(), y


def _parsed(path: Path, features: int | None = None) -> Any:
    from sklearn.datasets import load_svmlight_file  # slow to import

    return load_svmlight_file(str(path), n_features=features)


def _digest(path: Path) -> str:
    """Return the sha256 of the parsed content. The files exist in several compressions without published checksums."""
    x, y = _parsed(path)
    x.sort_indices()
    total = hashlib.sha256()
    for part, kind in ((y, "<f8"), (x.indptr, "<i8"), (x.indices, "<i8"), (x.data, "<f8")):
        total.update(part.astype(kind).tobytes())
    return total.hexdigest()


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise TacitError(f"there is no file {path.absolute()}")
    return path


def _columns(path: Path, first: list[str], label: str | int, header: bool | None) -> tuple[list[str], int]:
    """Return the column names (empty without a header) and the index of the label's column."""
    if isinstance(label, int):
        if not -len(first) <= label < len(first):
            raise TacitError(f"{path}: label column {label} does not exist; the columns are 0 … {len(first) - 1}")
        column = label % len(first)
        if header is None:
            header = not all(_is_number(cell) for i, cell in enumerate(first) if i != column)
        return [cell.strip() for cell in first] if header else [], column
    names = [cell.strip() for cell in first]
    if header is False or label not in names:
        raise TacitError(f'{path}: label column "{label}" does not exist; the first line is: {", ".join(names)}')
    return names, names.index(label)


def _numbers(path: Path, line: int, row: list[str], names: list[str]) -> list[float]:
    try:
        values = [float(cell) for cell in row]
        invalid = next((i for i, value in enumerate(values) if not np.isfinite(value)), None)
    except ValueError:
        invalid = next(i for i, cell in enumerate(row) if not _is_number(cell))
    if invalid is not None:
        raise TacitError(f'{path}: line {line}, column {names[invalid]}: "{row[invalid]}" is not a finite number')
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
