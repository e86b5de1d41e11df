"""README and other files of the root as pages, with links that are right on the site and in the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOT_PAGES = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)]*)?\)")


def from_root(text: str) -> str:
    """Return the text of a file of the root, with links from the folder of the site.

    >>> from_root("[data](docs/data.md#test), [log](CHANGELOG.md), [cite](CITATION.cff), [web](https://x.org)")
    '[data](data.md#test), [log](changelog.md), cite, [web](https://x.org)'
    """
    return _without_dead_links(_LINK.sub(lambda found: _rewritten(found, "", ROOT_PAGES), text), "")


def to_root(text: str, page: str) -> str:
    """Return the text of a page, with links to files of the root replaced by links to their pages.

    >>> to_root("[terms](../README.md#terms), [other](data.md), [files](../experiments/ppgl)", "models.md")
    '[terms](readme.md#terms), [other](data.md), files'
    """
    folder = posixpath.dirname(page)
    outside = {f"../{name}": target for name, target in ROOT_PAGES.items()}
    return _without_dead_links(_LINK.sub(lambda found: _rewritten(found, folder, outside), text), folder)


def _rewritten(found: re.Match[str], folder: str, pages: dict[str, str]) -> str:
    start, target, anchor = found[1], found[2], found[3] or ""
    place = posixpath.normpath(posixpath.join(folder, target))
    if place in pages:
        return f"{start}{posixpath.relpath(pages[place], folder or '.')}{anchor})"
    if not folder and target.startswith("docs/"):
        return f"{start}{target.removeprefix('docs/')}{anchor})"
    return found[0]


def _without_dead_links(text: str, folder: str) -> str:
    """Replace links to files that the site does not have, such as examples, by their text."""

    def kept(found: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join("docs", folder, found[2]))
        outside = not place.startswith("docs/") or not (ROOT / place).exists()
        generated = posixpath.relpath(place, "docs") in ROOT_PAGES.values()
        return found[1] if outside and not generated and "://" not in found[2] else found[0]

    return re.sub(r"(?<!!)\[([^\]\[]*)\]\(([^)\s#]+)(?:#[^)]*)?\)", kept, text)
