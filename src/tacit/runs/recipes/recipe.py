"""A recipe: settings for a kind of records, chosen by public facts only."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal

from tacit.errors import TacitError, unknown
from tacit.runs.recipes.adaptation import Setting, StatisticShares, StepSize
from tacit.tasks import Dataset, TargetKind

RECIPE_MODEL = "logistic"  # of all recipes
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
        plain: Whether the records must stay as they are: for a model of the user's own, or because columns have private
            ranges, so that there are no values before their release.
    """

    inputs: tuple[int, ...]
    target: TargetKind
    tokens: bool = False
    records: int = 0
    classes: int = 0
    plain: bool = False

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
    def channels(self) -> int:
        """The number of channels of an image; 0 for other records."""
        return 0 if self.kind != "images" else 1 if len(self.inputs) == 2 else self.inputs[0]

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
        settings: Parts of a config.
        paired: What differs with paired noise.
        step: How lr follows the noise; None: it does not.
        shares: Which statistics are released before round 0; None: none.
        min_side: The smallest height and width of images.
        channels: The number of channels of images; 0: any.
        plain: Whether the records stay as they are, so that any model can be trained on them.
    """

    name: str
    about: str
    kind: RecordKind
    targets: tuple[str, ...]
    settings: Mapping[str, Any]
    paired: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    step: StepSize | None = field(default=None, kw_only=True)
    shares: StatisticShares | None = field(default=None, kw_only=True)
    min_side: int = field(default=0, kw_only=True)
    channels: int = field(default=0, kw_only=True)
    plain: bool = field(default=False, kw_only=True)

    def fits(self, facts: PublicFacts) -> bool:
        """Return whether the recipe is for such records. Images can be used as vectors, too."""
        if facts.target not in self.targets or facts.kind == "tokens" or (facts.plain and not self.plain):
            return False
        if self.kind == "vectors":
            return True
        return facts.kind == "images" and facts.side >= self.min_side and self.channels in (0, facts.channels)

    def rules(self) -> dict[str, Any]:
        """Return the settings, and what changes them, as a table."""
        made: dict[str, Any] = {"settings": dict(self.settings)}
        if self.paired:
            made["paired"] = dict(self.paired)
        if self.step is not None:
            made["step"] = asdict(self.step)
        if self.shares is not None:
            own = asdict(self.shares)
            made["shares"] = own if self.shares.gram is not None else {"mean": own["mean"]}
        return made

    def settings_for(self, target: Setting | None, *, divides_privacy: bool = True) -> dict[str, Any]:
        """Return the settings for this target; None: a run without a target ε, in which nothing is adapted.

        Args:
            target: What the noise in the mean depends on.
            divides_privacy: Whether the run can release statistics of its records before round 0.
        """
        made = {name: dict(each) if isinstance(each, Mapping) else each for name, each in self.settings.items()}
        if target is None:
            return made
        for name, each in self.paired.items() if target.colluders is not None else ():
            made[name] = {**made.get(name, {}), **each}
        if divides_privacy and self.shares is not None:
            shares = self.shares.at(target)
            made["privacy"], target = {"shares": shares}, replace(target, share=shares["gradients"])
        if self.step is not None:
            made["algorithm"]["lr"] = self.step.at(target)
        return made


def _read() -> dict[str, Recipe]:
    table = tomllib.loads(files("tacit.runs.recipes").joinpath("recipes.toml").read_text(encoding="utf-8"))
    return {name: _recipe(name, each) for name, each in table.items()}


def _recipe(name: str, table: dict[str, Any]) -> Recipe:
    table["targets"] = tuple(table["targets"])
    for key, kind in (("step", StepSize), ("shares", StatisticShares)):
        if key in table:
            table[key] = kind(**table[key])
    return Recipe(name, **table)


RECIPES: Mapping[str, Recipe] = _read()
"""All recipes by name; the first that fits is used."""


def recipe_line(name: str) -> str:
    """The line that names a recipe in the output of a command. A recipe of another version has no description."""
    return f"Recipe: {name}" + (f" ({RECIPES[name].about})" if name in RECIPES else "")


def fitting_recipe(facts: PublicFacts, name: str | None = None) -> Recipe:
    """Return the recipe for records with these facts; `name` chooses one.

    >>> fitting_recipe(PublicFacts((1, 28, 28), "class")).name, fitting_recipe(PublicFacts((14,), "number")).name
    ('images-2', 'values-1')

    Raises:
        TacitError: No recipe fits, or the chosen one does not.
    """
    if name is not None and name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    for recipe in [RECIPES[name]] if name else RECIPES.values():
        if recipe.fits(facts):
            return recipe
    which = f"recipe {name} is not" if name else "no recipe is"
    if name is not None and facts.plain:
        raise TacitError(f'{which} for models of your own or columns of range = "private": remove recipe')
    raise TacitError(
        f'{which} for {facts.kind} of shape {facts.inputs} with a target of kind "{facts.target}": name a method '
        "(tacit list)"
    )
