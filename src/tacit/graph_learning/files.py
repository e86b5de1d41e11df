"""Signals from files, and learned graphs into them."""

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
from tacit.privacy.ledger import Array
from tacit.runs import storage

_TAKEN = {"consensus", "history"}  # files of these names are written beside the clients' own


@dataclass(frozen=True)
class ClientSignals:
    """The signals of each client, its name, and the names of the vertices, where the files tell them."""

    signals: list[Array]
    names: list[str]
    vertices: list[str] | None


def read_clients(paths: Sequence[Path]) -> ClientSignals:
    """A file a client: csv, a row a signal, its first line perhaps the vertices' names; or npz, each array a client."""
    signals: list[Array] = []
    names: list[str] = []
    headers: list[tuple[Path, list[str]]] = []
    for path in paths:
        if not path.is_file():
            raise TacitError(f"there is no file {path}")
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
            raise TacitError(f"{path} is neither a .csv nor a .npz file")
    for path, header in headers[1:]:
        if header != headers[0][1]:
            raise TacitError(f"{path} names other vertices than {headers[0][0]}, or in another order")
    names = [name.replace("/", "-") for name in names]
    if len(set(names)) < len(names) or _TAKEN & set(names):
        names = [f"{name}-{i}" for i, name in enumerate(names)]
    return ClientSignals(signals, names, headers[0][1] if headers else None)


def _npz(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: np.asarray(file[key], np.float64) for key in file.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise TacitError(f"{path} cannot be read as arrays of numbers: {error}") from None
    if not arrays:
        raise TacitError(f"{path} holds no arrays")
    return arrays


def _csv(path: Path) -> tuple[list[str], Array]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TacitError(f"{path} cannot be read as a table: {error}") from None
    if not rows:
        raise TacitError(f"{path} is empty")
    header = [] if all(_is_number(cell) for cell in rows[0]) else [cell.strip() for cell in rows[0]]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise TacitError(f'{path}: two vertices are called "{twice}"')
    table = np.full((len(rows) - bool(header), len(rows[0])), np.nan)
    for number, row in enumerate(rows[bool(header) :]):
        if len(row) != len(rows[0]):
            raise TacitError(f"{path}: signal {number} has {len(row)} values, and the first line {len(rows[0])}")
        for column, cell in enumerate(row):
            if not _is_number(cell):
                raise TacitError(f'{path}: signal {number} has "{cell}" in column {column}, which is no number')
            table[number, column] = float(cell) if cell.strip() else np.nan
    return header, table


def _is_number(cell: str) -> bool:
    """Empty cells count: they are missing values, which are refused with a sentence of their own."""
    try:
        float(cell or "nan")
    except ValueError:
        return not cell.strip()
    return True


def write_graph(graph: nx.Graph, folder: Path, name: str) -> None:
    """`name`.graphml, and `name`.csv with a line an edge."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["source", "target", "weight"])
    writer.writerows((a, b, repr(float(data["weight"]))) for a, b, data in graph.edges(data=True))
    storage.write(folder / f"{name}.csv", table.getvalue().encode())
    storage.write(folder / f"{name}.graphml", "\n".join(nx.generate_graphml(graph)).encode())
