"""`python -m tacit.reports.results_pages PAGE …`: write the tables and charts of pages anew from the kept results."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tacit.reports.results_charts import chart_digest, chart_svg, digest_in
from tacit.reproduce import block_names, has_results, shown_experiment, with_blocks


def chart_file(page: Path, name: str) -> Path:
    """The file of an experiment's charts, beside the page."""
    return page.parent / f"{name.replace('/', '-')}.svg"


def chart_block(name: str) -> str:
    """The Markdown of an experiment's charts; empty without results."""
    experiment, rows = shown_experiment(name)
    return f"![{experiment.title}]({name.replace('/', '-')}.svg)" if has_results(rows) else ""


def updated_page(text: str) -> str:
    """Return a page with every table and chart block made from kept results."""
    return with_blocks(text, {"chart": chart_block})


def outdated_charts(page: Path, text: str) -> list[str]:
    """The experiments whose charts on a page were not drawn from the kept results."""
    return [name for name in block_names(text, "chart") if not _is_current(chart_file(page, name), name)]


def write_page(page: Path) -> list[Path]:
    """Write a page and its charts anew, and return the files that have changed."""
    text = page.read_text(encoding="utf-8")
    changed = []
    for name in outdated_charts(page, text):
        file, (experiment, rows) = chart_file(page, name), shown_experiment(name)
        if has_results(rows):
            file.write_text(chart_svg(experiment, rows), encoding="utf-8")
        else:
            file.unlink()
        changed.append(file)
    if (new := updated_page(text)) != text:
        page.write_text(new, encoding="utf-8")
        changed.append(page)
    return changed


def _is_current(file: Path, name: str) -> bool:
    experiment, rows = shown_experiment(name)
    if not has_results(rows):
        return not file.exists()
    return file.is_file() and digest_in(file.read_text(encoding="utf-8")) == chart_digest(experiment, rows)


def main(pages: Iterable[str]) -> None:
    """Write the pages, and print the files that have changed."""
    for page in map(Path, pages):
        for file in write_page(page):
            sys.stdout.write(f"{file} was written anew\n")


if __name__ == "__main__":
    main(sys.argv[1:])
