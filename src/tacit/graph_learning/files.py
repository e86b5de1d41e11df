"""Read signals from files and write learned graphs to files."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np

from tacit.errors import TacitError
from tacit.privacy import Array
from tacit.runs import storage

_RESERVED_NAMES = {"consensus", "history"}  # other files in the output folder have these names


@dataclass(frozen=True)
class ClientSignals:
    """Signals that were read from files.

    Attributes:
        signals: One table (N_i, d) per client.
        names: The clients' names, from the file names.
        vertices: The vertices' names, if a file has a header with them.
    """

    signals: list[Array]
    names: list[str]
    vertices: list[str] | None


def read_clients(paths: Sequence[Path]) -> ClientSignals:
    """Read the signals of several clients.

    Args:
        paths: A .csv file holds one client: one signal per row, one vertex per column, optionally with the vertices'
            names in the first line. Every array of an .npz file is one client.

    Raises:
        TacitError: If a file is missing, unreadable or not a table of numbers, or if headers differ.
    """
    signals: list[Array] = []
    names: list[str] = []
    headers: list[tuple[Path, list[str]]] = []
    for path in paths:
        if not path.is_file():
            raise TacitError(f"File not found: {path}")
        if path.suffix == ".npz":
            arrays = _npz(path)
            signals += arrays.values()
            names += [path.stem] if len(arrays) == 1 else [f"{path.stem}-{key}" for key in arrays]
        elif path.suffix == ".csv":
            header, table = _csv(path)
            signals.append(table)
            names.append(path.stem)
            headers += [(path, header)] if header else []
        else:
            raise TacitError(f"{path} must be a .csv or .npz file")
    for path, header in headers[1:]:
        if header != headers[0][1]:
            raise TacitError(
                f"{path} and {headers[0][0]} name different vertices, or in a different order: all clients need the "
                "same columns"
            )
    names = [name.replace("/", "-") for name in names]
    if len(set(names)) < len(names) or _RESERVED_NAMES & set(names):
        names = [f"{name}-{i}" for i, name in enumerate(names)]
    return ClientSignals(signals, names, headers[0][1] if headers else None)


def _npz(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {key: np.asarray(file[key], np.float64) for key in file.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        # The library's message can contain a value of the file, so it is not passed on.
        raise TacitError(f"{path} cannot be read as an .npz archive of numeric arrays") from None
    if not arrays:
        raise TacitError(f"{path} contains no arrays")
    return arrays


def _csv(path: Path) -> tuple[list[str], Array]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise TacitError(f"{path} cannot be read as a CSV table in UTF-8") from None
    if not rows:
        raise TacitError(f"{path} is empty")
    first = rows[0][1]
    header = [] if all(_is_number(cell) for cell in first) else [cell.strip() for cell in first]
    if len(set(header)) < len(header):
        second = next(i for i, name in enumerate(header) if name in header[:i])
        raise TacitError(f"{path}: columns {header.index(header[second]) + 1} and {second + 1} have the same name")
    table = np.full((len(rows) - bool(header), len(first)), np.nan)
    for number, (line, row) in enumerate(rows[bool(header) :]):
        if len(row) != len(first):
            raise TacitError(f"{path}, line {line}: {len(row)} values, but the first line has {len(first)}")
        for column, cell in enumerate(row):
            if not _is_number(cell):
                raise TacitError(f"{path}, line {line}, column {column + 1}: not a number")
            table[number, column] = float(cell) if cell.strip() else np.nan
    return header, table


def _is_number(cell: str) -> bool:
    """Whether a cell is a number or empty. Empty cells are missing values, which `Signals` refuses."""
    try:
        float(cell or "nan")
    except ValueError:
        return not cell.strip()
    return True


def write_graph(graph: nx.Graph, folder: Path, name: str) -> None:
    """Write a graph to `name`.graphml, and to `name`.csv with one line per edge."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["source", "target", "weight"])
    writer.writerows((a, b, repr(float(data["weight"]))) for a, b, data in graph.edges(data=True))
    storage.write(folder / f"{name}.csv", table.getvalue().encode())
    storage.write(folder / f"{name}.graphml", "\n".join(nx.generate_graphml(graph)).encode())
