"""`tacit export`: write the trained model of a run in a format that other programs read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line


class _Format(StrEnum):
    onnx = "onnx"
    torchscript = "torchscript"
    state_dict = "state-dict"


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or state folder of a site.")],
    form: Annotated[_Format, typer.Option("--format", help="The format of the file.")] = _Format.onnx,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write. Default: in the current folder, with the name of the run's folder and the ending "
            ".onnx, .pt or .safetensors."
        ),
    ] = None,
    node: Annotated[int | None, typer.Option(min=0, help="Export the model of this node, not the mean model.")] = None,
    model: Annotated[
        str | None, typer.Option(help="FILE.py:NAME of a model that is not part of Tacit. The file is executed.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="FILE.py:NAME of an own feature of the run. The file is executed. Can be repeated."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Verify the run first.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> None:
    """Export the trained model of a run to ONNX, TorchScript or a safetensors file.

    ONNX and TorchScript files map prepared features to probabilities, or to numbers in the unit of the records.
    """
    from tacit.cli.privacy_lines import model_privacy_lines
    from tacit.runs import EXPORT_SUFFIXES, export_model, load

    with err.status("Verifying the run" if verify else "Reading the run"):
        trained = load(run, verify=verify, model=model, features=features).trained(node)
    path = out or Path(f"{run.resolve().name}{EXPORT_SUFFIXES[form.value]}")
    with err.status(f"Exporting to {form.value}"):
        export_model(trained, path, form.value)
    description = trained.description
    if as_json:
        shown = {"run": str(run), "out": str(path), "format": form.value, "node": description.node}
        privacy = {"verified": verify, "privacy": description.privacy.model_dump()}
        print_json({**shown, "inputs": list(trained.inputs), **privacy})
        return
    print_line(f"Model: {path}")
    for line in model_privacy_lines(description.privacy, verified=verify):
        print_line(line)
