"""`tacit verify`: recompute the ε of finished runs and compare it with everything in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import err, print_json, print_line

if TYPE_CHECKING:
    from tacit.runs import Verification


@app.command()
def verify(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.", metavar="RUN...")],
    public_key: Annotated[
        Path | None, typer.Option(help="Ed25519 public key (PEM) with which the runs must be signed.")
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(help="Ed25519 private key (PEM): sign the runs if they have no differences.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Recompute the ε of finished runs from their ledgers, and compare it with all files of the runs.

    Exit code 1: a run does not agree with its ledger. The differences are listed.
    """
    from tacit.runs import load_private_key, load_public_key
    from tacit.runs import verify as verify_run

    public = None if public_key is None else load_public_key(public_key)
    private = None if sign is None else load_private_key(sign)
    found = []
    for run in runs:
        with err.status(f"Verifying {run}"):
            verification = verify_run(run, public_key=public, sign=private)
        found.append(verification)
        if not as_json:
            _print(verification)
    if as_json:
        print_json({"runs": [each.as_dict() for each in found]})
    if not all(each.holds for each in found):
        raise typer.Exit(1)


def _print(verification: Verification) -> None:
    if verification.holds:
        print_line(f"{verification.folder}: verified")
    else:
        print_line(f"{verification.folder}: NOT VERIFIED, differences: {len(verification.differences)}")
    for line in verification.differences or verification.checked:
        print_line(f"  {line}")
    for line in verification.unchecked:
        print_line(f"  Not checked: {line}")
    if verification.signed_by is not None:
        print_line(f"  Signed with the key {verification.signed_by}")
    elif verification.holds:
        print_line("  Not signed: the files agree with each other, but it is not known who has written them")
