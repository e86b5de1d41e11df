"""What `tacit list --support` prints: the support matrix as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.cli.output import aligned_table, err, print_json, print_line
from tacit.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tacit.support import Answer, MethodSupport

_SIGNS = {"proven": "✓", "supported": "✓", "no bound known": "?", "refused": "✗", "not applicable": "–"}
_LEGEND = """\
✓    proven, or supported
(✓)  proven, but without amplification by sampling, or only by the eavesdropper's bound
?    no bound known
–    not applicable: no noise, or the sampling cannot be accounted for the relation
✗    refused
`tacit list NAME --support` prints the reasons."""


def print_support(name: str | None, as_json: bool) -> None:
    """Print the support of one method with all reasons, or of every method as tables."""
    from tacit.algorithms import algorithms
    from tacit.graph_learning import graph_methods
    from tacit.support import method_support, support_matrix

    methods = [*algorithms, *graph_methods]
    if name is not None and name not in methods:
        raise unknown("algorithm", name, methods)
    with err.status("Asking the accountant"):
        rows = support_matrix() if name is None else method_support(name)
    if as_json:
        print_json({"methods": [row.as_dict() for row in rows]})
    elif name is None:
        _print_tables(rows)
    else:
        for row in rows:
            _print_reasons(row)


def _print_tables(rows: tuple[MethodSupport, ...] | list[MethodSupport]) -> None:
    print_line(_LEGEND)
    training = [row for row in rows if len(row.adversaries) > 1]
    _print_table("Sampling and relation", rows, [{" ".join(k): a for k, a in row.samplings.items()} for row in rows])
    _print_table("Correlated noise", training, [row.correlations for row in training])
    _print_table("Adversary", training, [row.adversaries for row in training])
    _print_table("Runtime", rows, [row.runtimes for row in rows])


def _print_table(
    title: str, rows: list[MethodSupport] | tuple[MethodSupport, ...], cells: list[dict[str, Answer]]
) -> None:
    head = list(cells[0])
    lines = [f"| {title.lower()} | {' | '.join(str(k + 1) for k in range(len(head)))} |", "| --- |"]
    for row, answers in zip(rows, cells, strict=True):
        lines.append(f"| {row.method.title} | {' | '.join(_sign(answers[key]) for key in head)} |")
    print_line("")
    for number, key in enumerate(head, 1):
        print_line(f"  {number}  {key}")
    print_line(aligned_table("\n".join(lines)))


def _print_reasons(row: MethodSupport) -> None:
    print_line(f"{row.method.title}: {row.noise} noise, protects a {row.unit}")
    samplings = {f"{sampling}, {relation}": answer for (sampling, relation), answer in row.samplings.items()}
    groups: Mapping[str, Mapping[str, Answer]] = {
        "sampling and relation": samplings,
        "correlated noise": row.correlations,
        "adversary": row.adversaries,
        "runtime": row.runtimes,
    }
    for group, answers in ((group, answers) for group, answers in groups.items() if answers):
        print_line(f"  {group}:")
        width = max(map(len, answers))
        for key, answer in answers.items():
            reason = f" ({answer.reason})" if answer.reason else ""
            print_line(f"    {key:<{width}}  {answer.status}{reason}")


def _sign(answer: Answer) -> str:
    return f"({_SIGNS[answer.status]})" if answer.is_weaker else _SIGNS[answer.status]
