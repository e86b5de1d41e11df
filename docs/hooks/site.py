"""The hook of MkDocs: brings in the files of the project's root, and fills in the pages that are generated from code.

A page asks for generated text by a line `<!-- generated: NAME -->`. The text is Markdown and is never stored.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from api_reference import api_page
from cli_reference import cli_page
from config_reference import config_page
from root_files import ROOT, ROOT_PAGES, from_root, to_root
from support_page import support_page

GENERATORS = {"api": api_page, "cli": cli_page, "config": config_page, "support": support_page}
_MARKER = re.compile(r"^<!-- generated: (\w+)(?: ([\w.]+))? -->$", re.MULTILINE)
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
_LONG_CODE = re.compile(r"(?<=<code>)[^<]{24,}(?=</code>)")
_BREAK = re.compile(r"(/|::|_|\.|,|=)(?=\w)")


def github_slug(text: str, separator: str) -> str:
    """Return the anchor that GitHub gives a heading, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"]["slugify"] = github_slug
    config.watch += [str(ROOT / name) for name in ROOT_PAGES]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in ROOT_PAGES.items():
        text = from_root((ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    text = to_root(markdown, page.file.src_uri)
    return _MARKER.sub(lambda found: GENERATORS[found[1]](*filter(None, [found[2]])), text)


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables break after a slash, a dot, a colon or an underscore, and nowhere else."""
    return _CELL.sub(lambda cell: _LONG_CODE.sub(lambda found: _BREAK.sub(r"\1<wbr>", found[0]), cell[0]), html)
