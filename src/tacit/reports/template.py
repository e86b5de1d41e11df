"""Rendering and writing of the HTML pages. A page needs no network: its charts use a script beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import require_extra
from tacit.reports.chart_description import describe_chart
from tacit.reports.formats import FILTERS
from tacit.reports.glossary import GLOSSARY, mark_terms, term_id
from tacit.reports.privacy_statement import simulation_sentence
from tacit.reports.utility_section import metric_text, trivial_text
from tacit.runs import ensure_folder, storage

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPT_FILE = "plotly.min.js"


def require_report_extra() -> None:
    """Raise MissingExtra unless the libraries that write pages are installed."""
    require_extra("report", "Report pages", "plotly", "jinja2", "markupsafe")


def render_template(template: str, /, **values: Any) -> str:
    """The HTML of a template in the folder `assets`.

    Raises:
        MissingExtra: The extra `report` is not installed.
    """
    require_report_extra()
    return _environment().get_template(template).render(script=SCRIPT_FILE, glossary=GLOSSARY, **values)


def write_page(page: Path, html: str) -> Path:
    """Write a page, and the script that draws its charts if the folder does not contain the same one already."""
    from plotly.offline import get_plotlyjs  # in the extra `report`

    ensure_folder(page.parent)
    script = get_plotlyjs().encode()
    beside = page.with_name(SCRIPT_FILE)
    if not beside.is_file() or beside.stat().st_size != len(script) or beside.read_bytes() != script:
        storage.write(beside, script)
    storage.write(page, html.encode())
    return page


def share_script(page: Path, folders: Iterable[Path]) -> None:
    """Make the scripts in `folders` hard links to the one beside `page`, so that the disk holds it once.

    Every folder can still be moved by itself. A file system without hard links keeps the copies.
    """
    for folder in folders:
        part = folder / f"{SCRIPT_FILE}.part"
        try:
            part.unlink(missing_ok=True)
            os.link(page.with_name(SCRIPT_FILE), part)
            os.replace(part, folder / SCRIPT_FILE)
        except OSError:
            part.unlink(missing_ok=True)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # in the extra `report`

    environment = Environment(
        loader=PackageLoader("tacit.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, metric=metric_text, trivial=trivial_text, terms=mark_terms)
    environment.filters.update(simulation=simulation_sentence, described=describe_chart, term_id=term_id)
    return environment
