"""`tacit plan`: what to expect of a training before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line, print_warning, show_preparation
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.plans import MethodPlan, TrainingPlan


@app.command()
def plan(
    data: Annotated[str, typer.Argument(help="A config file (TOML), a data set of tacit list, or a file of records.")],
    epsilon: Annotated[float | None, typer.Option(help="Guaranteed ε. Default: that of the config.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ. Default: that of the config.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes. Default: that of the config.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the config of the first method to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Print expected accuracy and cost of each method. Nothing is released, and no ε is spent."""
    import tomli_w

    from tacit.plans import plan_config, plan_training

    config = plan_config(data, {"privacy": {"epsilon": epsilon, "delta": delta}, "graph": {"nodes": nodes}})
    with show_preparation("Planning on synthetic records"), _table_hint(data):
        made = plan_training(config)
    if write is not None:
        write.write_text(tomli_w.dumps(made.config), encoding="utf-8")
    if as_json:
        print_json(made.as_dict())
        return
    _print(made)
    if write is not None:
        print_line(f"Config: {write}")


@contextmanager
def _table_hint(source: str) -> Iterator[None]:
    """Add to an error about a file of records that a table needs declared columns."""
    try:
        yield
    except TacitError as error:
        if Path(source).suffix not in (".csv", ".gz", ".parquet"):
            raise
        raise TacitError(
            f"{error}. A table needs declared columns: `tacit inspect {source} --out draft.toml` drafts a config for "
            "`tacit plan`"
        ) from None


def _print(made: TrainingPlan) -> None:
    facts = made.facts
    print_line(
        f"{made.data}: {facts.records:,} records of shape {facts.inputs}, {made.nodes} nodes, ε = {made.epsilon:g}, "
        f"δ = {made.delta:g}. {made.note}"
    )
    head = "| method | expected accuracy | noise multiplier | noise of the mean | rounds | MB per node | s per node |"
    usable = [each for each in made.methods if each.refused is None]
    print_line(aligned_table("\n".join([head, "| --- |" * 7, *map(_row, usable)])))
    for each in usable:
        if each.expected is not None:
            print_line(f"{each.method}: {each.expected.source}")
    print_line("MB and s: from a trial of three rounds on synthetic records of the same shape, on this machine.")
    if made.paired_gain > 1:
        colluders = f"{made.colluders} colluding node{'' if made.colluders == 1 else 's'}"
        print_line(f"Paired noise, {colluders}: at most {made.paired_gain:.1f} times less noise in the mean.")
    for each in made.methods:
        if each.refused is not None:
            print_line(f"{each.method} cannot be used: {each.refused}")
    if made.warning:
        print_warning(made.warning)


def _row(each: MethodPlan) -> str:
    expected = "not measured" if each.expected is None else f"{100 * each.expected.accuracy:.1f} %"
    assert each.bytes_per_node is not None, "a usable method has all values"
    costs = f"{each.bytes_per_node / 1e6:.2f} | {each.seconds_per_node:.2g}"
    noise = f"{each.noise_multiplier:.3g} | {each.mean_noise:.3g}"
    return f"| {each.method} | {expected} | {noise} | {each.rounds} | {costs} |"
