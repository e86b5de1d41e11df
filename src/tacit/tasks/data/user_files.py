"""The user's own npz, csv and Parquet files.

Privacy:
    Whether a first line is a header, whether labels are numbers, and all columns of a table are declared, not found
    out from the cells. A table with declared columns is read whatever its cells contain (see `TableSchema`). Other
    files must have the declared form: finite numbers, one label per record, labels that are in the list. A file of
    another form is refused with the position of the first problem, and the message contains nothing of the records.
    Numbers of such files are used as they are: nothing is scaled by a mean or a range of the records.
"""

import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tacit.errors import TacitError
from tacit.tasks.data.columns import Interval, Missing
from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.files import existing
from tacit.tasks.data.normalising import Normalise
from tacit.tasks.data.numeric_csv import NumericCsv
from tacit.tasks.data.split import Split
from tacit.tasks.data.table_reader import open_table
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.data.table_source import ParquetTable
from tacit.tasks.target import Label, Target

_NOT_NPZ = (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error)


@datasets.register("npz")
def npz(
    path: Path,
    labels: list[Label] | None = None,
    target: Interval | None = None,
    test: float = 0.2,
    split: Split = "content",
    seed: int = 0,
    normalise: Normalise = "none",
) -> Dataset:
    """Your own numpy .npz file with arrays x and y, and optionally x_test and y_test.

    Args:
        path: The file.
        labels: The label values (numbers or text) in the order of the classes. A private run requires them. None: all
            values of y, sorted.
        target: The range of y, if y is a number to predict and not a class. Numbers outside it are clamped.
        test: The share of the records to hold out for testing, if the file has no test records.
        split: What decides whether a record is held out, its "content" or its "index" in the file. A run chooses the
            one that fits its relation.
        seed: The key of the split.
        normalise: "unit" divides every record by its L2 norm.
    """
    path = Path(path)
    keys = ("x", "y", "x_test", "y_test")
    try:
        # unpickling would run code from the file
        with existing(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            names = {("x" if name == "X" and "x" not in file else name): name for name in file.files}
            found = {key: file[names[key]] for key in keys if key in names}
    except _NOT_NPZ:  # the library's message can contain a part of the file, so it is not passed on
        raise TacitError(f"{path} is damaged or not a .npz file of numeric arrays") from None
    absent = [key for key in keys[:2] if key not in found]
    if absent or len(found) == 3:
        missing = absent[0] if absent else ("x_test" if "y_test" in found else "y_test")
        raise TacitError(f'{path} has no array "{missing}"; it has: {", ".join(names) or "no arrays"}')
    held = (found["x_test"], found["y_test"]) if "x_test" in found else test
    number = None if target is None else Target("number", range=target)
    arrays = found["x"], found["y"], held, seed, path.stem, labels, split, number
    return Dataset.from_arrays(*arrays).normalised(normalise)


@datasets.register("csv")
def csv(
    path: Path,
    columns: dict[str, Any] | None = None,
    missing: Missing = "middle",
    label: str | int = -1,
    header: bool | None = None,
    labels: list[Label] | None = None,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
    encoding: str | None = None,
    multiline: bool = False,
    from_records: bool = False,
    test: float = 0.2,
    test_path: Path | None = None,
    split: Split = "content",
    seed: int = 0,
    normalise: Normalise = "none",
) -> Dataset:
    """Your own .csv file (or .csv.gz): a table with declared columns, or numbers in every column except the label.

    Args:
        path: The file.
        columns: The columns by name: `age = {range = [0, 110]}`, `sex = {categories = ["F", "M"]}`,
            `visit = {date = ["2015-01-01", "2025-12-31"]}`, `notes = "drop"`, `outcome = {label = ["no", "yes"]}`.
        missing: With `columns`: how missing cells are prepared: "middle", "indicator" or "refuse".
        label: Without `columns`: the name of the label's column, or its index from 0 (−1: the last).
        header: Without `columns`: whether the first line has column names; None: yes if `label` is a name, no if it is
            an index.
        labels: Without `columns`: the label values (numbers or text) in the order of the classes. A private run
            requires them. None: all values of the column, sorted.
        separator: The separator of cells. None: the one of comma, semicolon, tab and | that fits the header.
        decimal: The decimal mark, "." or ",". None: "." if cells are separated by commas, otherwise both.
        encoding: The encoding of the text. None: UTF-8, or that of the byte order mark.
        multiline: With `columns`: whether quoted cells can contain line breaks. Otherwise every line is one record.
        from_records: Marks a draft of `columns` with values of the records (`tacit inspect --from-records`), which is
            refused. Remove it when all values are public knowledge.
        test: The share of the records to hold out for testing.
        test_path: A file with the test records, in the same form. `test`, `split` and `seed` then have no effect.
        split: What decides whether a record is held out, its "content" or its "index" in the file. A run chooses the
            one that fits its relation.
        seed: The key of the split.
        normalise: Without `columns`: "unit" divides every record by its L2 norm.
    """
    files = [Path(each) for each in (path, test_path) if each is not None]
    if columns is not None:
        schema = TableSchema.parse(columns, missing)
        _check_unused(schema, label, header, labels, normalise)
        _check_draft(from_records)
        tables = [open_table(file, schema, separator, decimal, encoding, multiline) for file in files]
        return Dataset.from_table(tables[0], schema, tables[1] if test_path else test, seed, files[0].stem, split)
    train, *others = [NumericCsv(existing(file), label, header, separator, decimal, encoding) for file in files]
    numeric = train.has_numeric_labels if labels is None else not any(isinstance(each, str) for each in labels)
    x, y = train.arrays(numeric, labels)
    held: float | tuple[np.ndarray, np.ndarray] = test
    for table in others:
        train.check_same_columns(table)
        held = table.arrays(numeric, labels)
    return Dataset.from_arrays(x, y, held, seed, files[0].stem, labels, split).normalised(normalise)


@datasets.register("parquet")
def parquet(
    path: Path,
    columns: dict[str, Any],
    missing: Missing = "middle",
    from_records: bool = False,
    test: float = 0.2,
    test_path: Path | None = None,
    split: Split = "content",
    seed: int = 0,
) -> Dataset:
    """Your own Parquet file: a table with declared columns. The parameters are those of csv.

    Args:
        path: The file.
        columns: The columns by name, as for csv.
        missing: How missing cells are prepared: "middle", "indicator" or "refuse".
        from_records: As for csv.
        test: The share of the records to hold out for testing.
        test_path: A file with the test records, in the same form. `test`, `split` and `seed` then have no effect.
        split: What decides whether a record is held out, its "content" or its "index" in the file. A run chooses the
            one that fits its relation.
        seed: The key of the split.
    """
    schema = TableSchema.parse(columns, missing)
    _check_draft(from_records)
    table, *others = [ParquetTable(existing(Path(each))) for each in (path, test_path) if each is not None]
    return Dataset.from_table(table, schema, others[0] if others else test, seed, Path(path).stem, split)


def _check_unused(
    schema: TableSchema, label: str | int, header: bool | None, labels: list[Label] | None, normalise: Normalise
) -> None:
    """Raise if a parameter is set that has no effect with declared columns, or contradicts them."""
    if labels is not None and tuple(labels) != schema.target.labels:
        raise TacitError("data.labels differs from the labels in data.columns: remove data.labels")
    without = 'with data.columns, data.{} has no effect: remove it. The target is declared as {{label = ["no", "yes"]}}'
    for name, is_set in (("label", label != -1), ("header", header is not None), ("normalise", normalise != "none")):
        if is_set:
            raise TacitError(without.format(name))


def _check_draft(from_records: bool) -> None:
    if from_records:
        raise TacitError(
            "data.from_records = true: these columns are a draft with values of the records, so no ε would hold for "
            "them. Replace the values by public knowledge, and remove data.from_records"
        )
