"""The generated blocks of a page: everything between two comments is made from kept results.

A block begins with `<!-- KIND: NAME -->` and ends with `<!-- end of results -->`. The kinds are `results` (the table of
the experiment NAME), `tuning` (its tries on held-out records), `summary` (the verdicts of all papers, NAME is `all`)
and `chart`, which `tacit.reports.results_pages` adds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial

from tacit.reproduce.estimate import estimate_sentence
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import load_experiment
from tacit.reproduce.kept import kept_estimate_file, kept_rows, kept_tuning_file
from tacit.reproduce.lengths import all_summaries, table_note
from tacit.reproduce.results import ResultRow
from tacit.reproduce.summary import summary_table
from tacit.reproduce.tables import markdown_table, tuning_table

_BLOCK = re.compile(r"(<!-- ([a-z]+): (\S+) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
BlockMaker = Callable[[str], str]


def kept_table(name: str) -> str:
    """The table of an experiment from its kept results, with a note on seeds and lengths, as Markdown."""
    experiment = load_experiment(name)
    rows = kept_rows(name, experiment)
    if not has_results(rows):
        return not_run(name)
    return f"{markdown_table(experiment, rows)}\n\n{table_note(rows)}"


def kept_tuning_table(name: str) -> str:
    """The table of the tries of an experiment on held-out records, as Markdown."""
    file = kept_tuning_file(name)
    if not file.is_file():
        return f"Tries not kept. To run them: `tacit reproduce {name} --tune --keep`."
    return tuning_table(load_experiment(name), json.loads(file.read_text(encoding="utf-8")))


def not_run(name: str) -> str:
    """What a block shows if nothing is kept: the command, and the estimate if one is kept."""
    file = kept_estimate_file(name)
    command = f"**Not run.** To run it: `tacit reproduce {name} --keep`."
    if not file.is_file():
        return command
    return f"{command} {estimate_sentence(json.loads(file.read_text(encoding='utf-8')))}"


def has_results(rows: list[ResultRow]) -> bool:
    """Whether some row has runs."""
    return bool(all_summaries(rows))


def with_blocks(page: str, makers: Mapping[str, BlockMaker] | None = None) -> str:
    """Return a page with every block made from kept results. Blocks of a kind without a maker are left as they are.

    Args:
        page: The text of the page.
        makers: Makers for further kinds of blocks.
    """
    known = {**_MAKERS, **(makers or {})}
    return _BLOCK.sub(partial(_replaced, known), page)


def block_names(page: str, kind: str) -> list[str]:
    """The names of the blocks of a kind, in their order."""
    return [block[3] for block in _BLOCK.finditer(page) if block[2] == kind]


def shown_experiment(name: str) -> tuple[Experiment, list[ResultRow]]:
    """An experiment with its kept rows."""
    experiment = load_experiment(name)
    return experiment, kept_rows(name, experiment)


def _replaced(makers: Mapping[str, BlockMaker], block: re.Match[str]) -> str:
    if block[2] not in makers:
        return block[0]
    made = makers[block[2]](block[3])
    return f"{block[1]}{made}\n{block[5]}" if made else f"{block[1]}{block[5]}"


_MAKERS: dict[str, BlockMaker] = {
    "results": kept_table,
    "tuning": kept_tuning_table,
    "summary": lambda _: summary_table(),
}
