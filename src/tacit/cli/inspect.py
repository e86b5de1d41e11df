"""`tacit inspect`: a draft of the declaration of a table, and a check of its cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.tasks import TableCheck, TableDraft, TableSchema

_CONFIDENTIAL = "CONFIDENTIAL: these counts come from the records and are not private. Do not share them."
_DIFFERS = 1  # exit code if the columns of the table are not the declared ones


@app.command("inspect")
def inspect_table(
    file: Annotated[Path, typer.Argument(help="The table: a .csv, .csv.gz or .parquet file with column names.")],
    label: Annotated[str | None, typer.Option(help="The column with the class to predict.")] = None,
    target: Annotated[str | None, typer.Option(help="The column with the number to predict.")] = None,
    from_records: Annotated[
        bool, typer.Option("--from-records", help="Also use the records. The draft is then not private.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the draft to this new file.")] = None,
    check: Annotated[
        Path | None, typer.Option(help="Instead, count the cells that do not fit the columns of this config file.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="Separator of cells. Default: the one of the header.")] = None,
    multiline: Annotated[bool, typer.Option("--multiline", help="Quoted cells can contain line breaks.")] = False,
    encoding: Annotated[str | None, typer.Option(help="Encoding of the text. Default: UTF-8.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    r"""Write a draft of \[data.columns] from the names and types of columns.

    No record is used, unless you ask for it with --from-records. Replace what comes from records by public knowledge.
    With --check CONFIG, count missing, unknown and clamped cells; exit code 1 if the columns are not the declared ones.
    """
    from tacit.tasks import CsvTable, check_table, draft_table, open_table

    if check is not None:
        if label or target or from_records or out:
            raise TacitError("--check has no draft: leave out --label, --target, --from-records and --out")
        schema = _schema(check)
        table = open_table(file, schema, separator=separator, encoding=encoding, multiline=multiline)
        _report(check_table(table, schema), as_json)
        return
    if out is not None and out.exists():
        raise TacitError(f"{out} exists: choose another file, or remove it")
    table = open_table(file, separator=separator, encoding=encoding, multiline=multiline)
    form: dict[str, str | bool | None] = {"separator": separator, "encoding": encoding, "multiline": multiline or None}
    data: dict[str, str | bool] = {"name": "csv" if isinstance(table, CsvTable) else "parquet", "path": str(file)}
    data |= {key: value for key, value in form.items() if value is not None}
    _write(draft_table(table, data, label=label, target=target, from_records=from_records), out, as_json)


def _write(draft: TableDraft, out: Path | None, as_json: bool) -> None:
    from tacit.runs import storage

    if draft.warning:
        err.print("warning:", draft.warning, style="yellow", highlight=False, soft_wrap=True)
    if out is not None:
        storage.write(out, draft.text().encode())
    if as_json:
        print_json({**draft.as_dict(), "out": None if out is None else str(out)})
    elif out is None:
        print_line(draft.text().rstrip("\n"))
    else:
        print_line(f"Draft: {out}")


def _report(found: TableCheck, as_json: bool) -> None:
    err.print(_CONFIDENTIAL, style="yellow", highlight=False, soft_wrap=True)
    if as_json:
        print_json(found.as_dict())
    else:
        _print_check(found)
    if not found.fits:
        raise typer.Exit(_DIFFERS)


def _schema(config: Path) -> TableSchema:
    """The columns that a config of `tacit train`, or the network.toml of sites, declares."""
    from tacit.runs import read_toml
    from tacit.tasks import TableSchema

    data = read_toml(config).get("data")
    columns = data.get("columns") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(columns, dict):
        raise TacitError(f"{config} declares no columns: it has no section [data.columns]")
    return TableSchema.parse(columns, data.get("missing", "middle"))


def _print_check(found: TableCheck) -> None:
    print_line(f"{found.records} records")
    head = ("column", "missing", "unknown", "clamped")
    rows = [head, *((each.name, each.missing, each.unknown, each.clamped) for each in found.columns)]
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(head))]
    for name, *counts in rows:
        cells = (f"{count:>{width}}" for count, width in zip(counts, widths[1:], strict=True))
        print_line(f"{name:<{widths[0]}}  {'  '.join(cells)}")
    if found.absent:
        print_line(f"Declared, but not in the table: {', '.join(found.absent)}")
    if found.undeclared:
        print_line(f"Not declared: {', '.join(found.undeclared)}")
