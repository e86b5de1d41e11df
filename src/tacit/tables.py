"""Tables of comparisons for papers: LaTeX, Markdown and CSV.

    table = tacit.compare(["dyn-d2p", "dp-sgd"], epsilon=2.0)
    print(tacit.tables.latex(table))
    tacit.tables.write(table, "table.tex")

Remove methods or metrics from the frame to leave them out: `tacit.tables.latex(table.drop(columns="loss"))`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.comparisons import ComparisonTable, frame_rows, table_of
from tacit.errors import TacitError
from tacit.runs import storage

if TYPE_CHECKING:
    import pandas as pd

_LETTERS = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
_LETTER_NAMES = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi chi "
    "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
_GREEK = {letter: f"$\\{name}$" for letter, name in zip(_LETTERS, _LETTER_NAMES.split(), strict=True)}
_TEX = _GREEK | {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # after the end of a row, TeX would take it for an argument
    "]": "{]}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "∇": r"$\nabla$",
    "‖": r"$\|$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "²": r"$^2$",
    "³": r"$^3$",
    "∞": r"$\infty$",
    "–": "--",
    "’": "'",
    "′": "$'$",
    "…": r"\ldots{}",
}
_BAR = re.compile("(\\w)\u0304")  # a letter with a bar, as in x̄


def latex(frame: pd.DataFrame, *, caption: str | None = None, label: str | None = None) -> str:
    """Return a frame of `tacit.compare` as a LaTeX table. It needs `\\usepackage{booktabs}`.

    Metrics are mean ± standard deviation. The best mean among the private methods is bold.

    Args:
        frame: The frame.
        caption: The text of the caption; None: the statement of the frame, which contains δ and the word "simulated".
        label: The label of the table, for `\\ref`.
    """
    table = _table(frame)
    numbers = "r" * (len(table.head) - 3)
    rows = [
        [
            f"\\textbf{{{escape_latex(cell)}}}" if (i, j) in table.best else escape_latex(cell)
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(table.rows)
    ]
    methods, trivial = rows[: len(frame)], rows[len(frame) :]
    lines = [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escape_latex(frame.attrs['statement'] if caption is None else caption)}}}",
        *([] if label is None else [f"\\label{{{label}}}"]),
        f"\\begin{{tabular}}{{ll{numbers}l}}",
        "\\toprule",
        _tex_row([escape_latex(text) for text in table.head]),
        "\\midrule",
        *map(_tex_row, methods),
        *(["\\midrule", *map(_tex_row, trivial)] if trivial else []),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def markdown(frame: pd.DataFrame) -> str:
    """Return a frame of `tacit.compare` as a Markdown table, with its statement below; the best means are bold."""
    return f"{_table(frame).markdown(bold=True)}\n\n{frame.attrs['statement']}"


def csv(frame: pd.DataFrame) -> str:
    """Return a frame of `tacit.compare` as CSV with all its columns, in full precision; unknown values are empty."""
    frame_rows(frame)  # refuses other frames
    text: str = frame.to_csv(lineterminator="\n")
    return text.removesuffix("\n")


FORMATS: dict[str, Callable[[pd.DataFrame], str]] = {"latex": latex, "markdown": markdown, "csv": csv}
_SUFFIXES = {".tex": latex, ".md": markdown, ".csv": csv}


def write(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write a frame of `tacit.compare` to a file: .tex, .md or .csv."""
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise TacitError(f"a table is written to .tex, .md or .csv, got {path}")
    storage.write(path, (_SUFFIXES[path.suffix](frame) + "\n").encode())
    return path


def escape_latex(text: str) -> str:
    """Return text as LaTeX shows it.

    >>> escape_latex("Dyn[C]-D²P, 5 %, ε = 2 ± 1, node_accuracy")
    'Dyn{[}C{]}-D$^2$P, 5 \\\\%, $\\\\varepsilon$ = 2 $\\\\pm$ 1, node\\\\_accuracy'
    """
    parts = _BAR.split(text)  # every second part is the letter below a bar
    return "".join(
        f"$\\bar{{{part}}}$" if i % 2 else "".join(_TEX.get(letter, letter) for letter in part)
        for i, part in enumerate(parts)
    )


def _table(frame: pd.DataFrame) -> ComparisonTable:
    return table_of(frame_rows(frame), frame.attrs.get("trivial"))


def _tex_row(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
