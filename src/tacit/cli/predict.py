"""`tacit predict`: predictions of a finished run for new records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or state folder of a site.")],
    records: Annotated[Path, typer.Argument(help="New records: a csv, Parquet or npz file.")],
    out: Annotated[Path | None, typer.Option(help="The csv file to write. Default: standard output.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add one column of probabilities per class.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="Copy this column of RECORDS to the output. Can be repeated.")
    ] = None,
    node: Annotated[int | None, typer.Option(min=0, help="Use the model of this node, not the mean model.")] = None,
    model: Annotated[
        str | None, typer.Option(help="FILE.py:NAME of a model that is not part of Tacit. The file is executed.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="FILE.py:NAME of an own feature of the run. The file is executed. Can be repeated."),
    ] = None,
    separator: Annotated[str | None, typer.Option(help="Separator of a csv file. Default: as in training.")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of a csv file. Default: as in training.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of a csv file. Default: as in training.")] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Verify the run first.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> None:
    """Predict the target of new records: one line per record, in the same order.

    The file needs the columns from which the model predicts. Other columns are ignored.
    """
    from tacit.cli.privacy_lines import model_privacy_lines
    from tacit.runs import PredictionWriter, RecordFile, load

    with err.status("Verifying the run" if verify else "Reading the run"):
        trained = load(run, verify=verify, model=model, features=features).trained(node)
    file = RecordFile.open(trained, records, keep or [], separator=separator, decimal=decimal, encoding=encoding)
    writer = PredictionWriter(trained, proba=proba)
    shown: dict[str, Any] = {"run": str(run)}
    privacy = trained.description.privacy
    if as_json and out is None:
        shown["predictions"] = writer.rows(file)
    else:
        count = writer.write(file, out)
        shown |= {"out": None if out is None else str(out), "records": count}
    notes = [*file.column_notes, *file.cell_notes]
    for note in notes:
        err.print(f"note: {note}", highlight=False, soft_wrap=True, markup=False, emoji=False)
    if as_json:
        print_json({**shown, "notes": notes, "verified": verify, "privacy": privacy.model_dump()})
    elif out is not None:
        print_line(f"Predictions of {count:,} {'record' if count == 1 else 'records'}: {out}")
        for line in model_privacy_lines(privacy, verified=verify):
            print_line(line)
        if privacy.covered:
            print_line("This ε does not protect the predicted records.")
