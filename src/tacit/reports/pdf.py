"""The report of a run as a PDF, printed by a Chromium browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tacit.errors import TacitError
from tacit.reports.document_section import document_items
from tacit.reports.run_page import render_run_page
from tacit.reports.run_record import RunRecord
from tacit.reports.template import write_page
from tacit.runs import storage

PDF_FILE = "report.pdf"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT = 180.0  # seconds


def write_run_pdf(folder: Path, out: Path, purpose: str = "") -> Path:
    """Verify the run in `folder` and write its report as a PDF, with a first page to sign.

    Args:
        folder: The folder of a finished run.
        out: The file to write.
        purpose: What the training is for, in words for the first page.

    Raises:
        TacitError: No browser is found, the browser fails, or the run does not agree with its ledger.
    """
    browser = find_browser()
    run = RunRecord.read(folder)
    html = render_run_page([run], document=document_items(run, purpose))
    with tempfile.TemporaryDirectory(prefix="tacit-report-") as work:
        page = write_page(Path(work) / "report.html", html)
        printed = Path(work) / "report.pdf"
        _print(browser, page, printed)
        storage.write(out, printed.read_bytes())
    return out


def find_browser() -> str:
    """The path of the first Chromium browser on PATH."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        raise TacitError(
            f"A PDF needs a Chromium browser, and none of {', '.join(_BROWSERS)} is on PATH. Install one, or open "
            "report.html in any browser and print it to a file"
        )
    return found


def _print(browser: str, page: Path, printed: Path) -> None:
    command = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", "--no-first-run"]
    command += [f"--user-data-dir={page.parent / 'profile'}", f"--print-to-pdf={printed}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--no-sandbox")  # Chromium has no sandbox for root
    try:
        ended = subprocess.run([*command, page.as_uri()], capture_output=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TacitError(f"{browser} could not print the report: {type(error).__name__}") from None
    if ended.returncode or not printed.is_file():
        raise TacitError(f"{browser} could not print the report: it ended with code {ended.returncode}")
