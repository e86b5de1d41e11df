"""Rendering of the HTML templates. A page is one file that needs no other and no network."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from tacit.reports.formats import FILTERS
from tacit.reports.utility_section import metric_text, trivial_text


def render_template(template: str, /, **values: Any) -> str:
    """The HTML of a template in the folder `assets`."""
    environment = Environment(
        loader=PackageLoader("tacit.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, metric=metric_text, trivial=trivial_text)
    return environment.get_template(template).render(plotly=get_plotlyjs(), **values)
