"""One mistake, and the lists of all of them."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class StaleMutant(Exception):
    """The correct text of a mutant does not occur exactly once in its file."""


@dataclass(frozen=True)
class Mutant:
    """A mistake in one file.

    Attributes:
        area: The part of the package: the name of the list.
        name: The mistake in words.
        file: The file, relative to the root of the repository.
        old: The correct text.
        new: The wrong text.
        tests: Test files or tests, relative to the root. At least one of them must fail.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, source: str) -> str:
        """Return the source of the file with the mistake."""
        found = source.count(self.old)
        if found != 1:
            raise StaleMutant(f"the correct text occurs {found} times in {self.file}, but must occur once")
        return source.replace(self.old, self.new)

    def matches(self, words: list[str]) -> bool:
        """Return whether the name or the area contains one of the words; without words, it does."""
        return not words or any(word in f"{self.area}: {self.name}" for word in words)


def load_mutants(folder: Path = Path(__file__).parent) -> list[Mutant]:
    """Return the mutants of all lists in the folder, in the order of their areas."""
    return [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read(path)]


def _read(path: Path) -> Iterator[Mutant]:
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        yield Mutant(area=path.stem, name=name, **entry | {"tests": tuple(entry["tests"])})
