"""A recipe: settings for a kind of records, chosen by public facts only."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from tacit.errors import TacitError, unknown
from tacit.tasks import Dataset, TargetKind

RecordKind = Literal["images", "vectors", "tokens"]


@dataclass(frozen=True)
class PublicFacts:
    """What the choice of a recipe may depend on.

    Privacy:
        All of it is declared or public: no value of a record has an influence. So a recipe costs no ε. The number of
        classes is an exception if they were learnt (`Dataset.declared`); no recipe depends on it.

    Attributes:
        inputs: The shape of a record.
        target: The kind of target.
        tokens: Whether records are tokens.
        records: The number of training records, which is public.
        classes: The number of classes; 0 without classes.
    """

    inputs: tuple[int, ...]
    target: TargetKind
    tokens: bool = False
    records: int = 0
    classes: int = 0

    @classmethod
    def of(cls, data: Dataset) -> PublicFacts:
        """Return the facts of a data set."""
        return cls(data.inputs, data.target.kind, data.tokens, len(data.y), data.classes)

    @property
    def kind(self) -> RecordKind:
        """The kind of records."""
        if self.tokens:
            return "tokens"
        return "images" if len(self.inputs) in (2, 3) else "vectors"

    @property
    def side(self) -> int:
        """The shorter side of an image; 0 for other records."""
        return min(self.inputs[-2:]) if self.kind == "images" else 0


@dataclass(frozen=True)
class Recipe:
    """Settings for a kind of records.

    Attributes:
        name: Its name, with a number that changes when its settings change.
        about: What it does, in one line.
        kind: The kind of records.
        targets: The kinds of targets.
        min_side: The smallest height and width of images.
        settings: Parts of a config.
    """

    name: str
    about: str
    kind: RecordKind
    targets: tuple[str, ...]
    settings: Mapping[str, Any]
    min_side: int = field(default=0, kw_only=True)

    def fits(self, facts: PublicFacts) -> bool:
        """Return whether the recipe is for such records. Images can be used as vectors, too."""
        if facts.target not in self.targets or facts.kind == "tokens":
            return False
        return self.kind == "vectors" or (facts.kind == "images" and facts.side >= self.min_side)


def _read() -> dict[str, Recipe]:
    table = tomllib.loads(files("tacit.runs.recipes").joinpath("recipes.toml").read_text(encoding="utf-8"))
    return {name: Recipe(name, **{**each, "targets": tuple(each["targets"])}) for name, each in table.items()}


RECIPES: Mapping[str, Recipe] = _read()
"""All recipes by name; the first that fits is used."""


def recipe_line(name: str) -> str:
    """The line that names a recipe in the output of a command. A recipe of another version has no description."""
    return f"Recipe: {name}" + (f" ({RECIPES[name].about})" if name in RECIPES else "")


def fitting_recipe(facts: PublicFacts, name: str | None = None) -> Recipe:
    """Return the recipe for records with these facts; `name` chooses one.

    >>> fitting_recipe(PublicFacts((1, 28, 28), "class")).name, fitting_recipe(PublicFacts((14,), "number")).name
    ('images-1', 'vectors-1')

    Raises:
        TacitError: No recipe fits, or the chosen one does not.
    """
    if name is not None and name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    for recipe in [RECIPES[name]] if name else RECIPES.values():
        if recipe.fits(facts):
            return recipe
    which = f"recipe {name} is not" if name else "no recipe is"
    raise TacitError(
        f'{which} for {facts.kind} of shape {facts.inputs} with a target of kind "{facts.target}": name a method in '
        "algorithm.name (tacit list)"
    )
