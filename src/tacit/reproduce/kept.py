"""Results that are kept with the experiments: one small file per cell, from which the tables of the pages are made."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tacit.errors import TacitError
from tacit.reproduce.cells import ExperimentCell, expand_cells
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import available_experiments, load_experiment
from tacit.reproduce.results import result_rows
from tacit.reproduce.tables import markdown_table, tuning_table
from tacit.runs.metrics import Result

_BLOCK = re.compile(r"(<!-- (results|tuning): (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def kept_folder(name: str) -> Path:
    """The folder of the kept cells of an experiment, such as experiments/results/flagship."""
    return available_experiments()[name].parents[1] / "results" / name.partition("/")[0]


def kept_results(name: str, cells: list[ExperimentCell]) -> dict[str, Result]:
    """The kept result of every cell, by its key.

    Raises:
        TacitError: Some cells are not kept.
    """
    folder = kept_folder(name)
    missing = [cell for cell in cells if not (folder / f"{cell.key}.json").is_file()]
    if missing:
        raise TacitError(
            f"{len(missing)} of {len(cells)} results of {name} are not kept in {folder}, such as {missing[0].title}: "
            "run the experiment without --kept"
        )
    return {cell.key: json.loads((folder / f"{cell.key}.json").read_text(encoding="utf-8")) for cell in cells}


def kept_table(name: str) -> str:
    """The table of an experiment from its kept results, as Markdown."""
    experiment: Experiment = load_experiment(name)
    cells = expand_cells(experiment)
    return markdown_table(experiment, result_rows(experiment, cells, kept_results(name, cells)))


def kept_tuning_file(name: str) -> Path:
    """The file of the kept tries of an experiment."""
    return kept_folder(name) / "tuning" / f"{name.partition('/')[2]}.json"


def kept_tuning_table(name: str) -> str:
    """The table of the tries of an experiment on held-out records, as Markdown."""
    tries = json.loads(kept_tuning_file(name).read_text(encoding="utf-8"))
    return tuning_table(load_experiment(name), tries)


def with_tables(page: str) -> str:
    """Return a page with every table made from kept results.

    A table stands between `<!-- results: NAME -->`, or `<!-- tuning: NAME -->`, and `<!-- end of results -->`.
    """
    make = {"results": kept_table, "tuning": kept_tuning_table}
    return _BLOCK.sub(lambda block: f"{block[1]}{make[block[2]](block[3])}\n{block[4]}", page)
