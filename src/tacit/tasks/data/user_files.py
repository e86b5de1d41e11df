"""The user's own npz and csv files.

Privacy:
    A file must have the declared form: finite numbers, one label per record, labels that are in the list. Another file
    is refused with the position of the first problem, and the message contains nothing of the records. Whether a
    first line is a header and whether labels are numbers is declared too, not found out from the cells. Numbers are
    used as they are: nothing is scaled by a mean or a range of the records.
"""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from tacit.errors import TacitError
from tacit.tasks.data.checks import Label
from tacit.tasks.data.csv_table import CsvTable
from tacit.tasks.data.dataset import Dataset, Normalise, datasets
from tacit.tasks.data.split import Split

_NOT_NPZ = (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error)


@datasets.register("npz")
def npz(
    path: Path,
    labels: list[Label] | None = None,
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
    return Dataset.from_arrays(found["x"], found["y"], held, seed, path.stem, labels, split).normalised(normalise)


@datasets.register("csv")
def csv(
    path: Path,
    label: str | int = -1,
    header: bool | None = None,
    labels: list[Label] | None = None,
    test: float = 0.2,
    test_path: Path | None = None,
    split: Split = "content",
    seed: int = 0,
    normalise: Normalise = "none",
) -> Dataset:
    """Your own .csv file: one record per line, numbers in every column except the label.

    Args:
        path: The file.
        label: The name of the label's column, or its index from 0 (−1: the last).
        header: Whether the first line has column names; None: yes if `label` is a name, no if it is an index.
        labels: The label values (numbers or text) in the order of the classes. A private run requires them. None: all
            values of the column, sorted.
        test: The share of the records to hold out for testing.
        test_path: A file with the test records, in the same form. `test`, `split` and `seed` then have no effect.
        split: What decides whether a record is held out, its "content" or its "index" in the file. A run chooses the
            one that fits its relation.
        seed: The key of the split.
        normalise: "unit" divides every record by its L2 norm.
    """
    train = CsvTable.read(existing(Path(path)), label, header)
    numeric = train.has_numeric_labels if labels is None else not any(isinstance(each, str) for each in labels)
    x, y = train.arrays(numeric, labels)
    held: float | tuple[np.ndarray, np.ndarray] = test
    if test_path is not None:
        table = CsvTable.read(existing(Path(test_path)), label, header)
        train.check_same_columns(table)
        held = table.arrays(numeric, labels)
    return Dataset.from_arrays(x, y, held, seed, Path(path).stem, labels, split).normalised(normalise)


def existing(path: Path) -> Path:
    """Return the path; raise if there is no such file."""
    if not path.is_file():
        raise TacitError(f"there is no file {path.absolute()}")
    return path
