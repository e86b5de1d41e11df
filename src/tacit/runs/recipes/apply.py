"""From a config with `algorithm = "auto"` to one with the settings of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from tacit.errors import TacitError
from tacit.runs.config import Config
from tacit.runs.config_batch import batch_relation
from tacit.runs.config_sections import AUTO, FeatureKeys, NamedPart
from tacit.runs.data_part import build_data
from tacit.runs.parts import UserParts
from tacit.runs.recipes.recipe import PublicFacts, Recipe, fitting_recipe
from tacit.tasks import with_features


def apply_recipe(config: Config, parts: UserParts | None = None) -> tuple[Config, UserParts]:
    """Return the config with the settings of the recipe that fits its records, if its algorithm is "auto".

    Settings that the config has itself win. `recipe` of the returned config names the recipe. Other configs are
    returned as they are.

    Privacy:
        The recipe is chosen by the shape of the records and the kind of target, which are public.

    Raises:
        TacitError: No recipe fits the records.
    """
    parts = parts or UserParts()
    if config.algorithm.name != AUTO or parts.algorithm is not None:
        return config, parts
    own_features = "features" in config.data.parameters
    plain = NamedPart.model_validate(
        {key: value for key, value in config.data.model_dump().items() if key not in FeatureKeys.model_fields}
    )
    data = parts.data or build_data(plain, batch_relation(config.batch))
    recipe = fitting_recipe(PublicFacts.of(data), config.recipe)
    table = _merged(config, recipe, own_model=_has_own_model(config, parts, recipe))
    made = Config.parse({**table, "recipe": recipe.name}, f"the config with recipe {recipe.name}")
    features = _features(made)
    if parts.data is not None and features is not None and not own_features:
        parts = replace(parts, data=with_features(parts.data, features.features or (), features.whiten, features.rank))
    return made, parts


def _has_own_model(config: Config, parts: UserParts, recipe: Recipe) -> bool:
    return parts.model is not None or (
        "model" in config.model_fields_set and config.model.name != recipe.settings["model"]["name"]
    )


def _features(config: Config) -> FeatureKeys | None:
    given = {key: value for key, value in config.data.parameters.items() if key in FeatureKeys.model_fields}
    return FeatureKeys.model_validate(given) if "features" in given else None


def _merged(config: Config, recipe: Recipe, *, own_model: bool) -> dict[str, Any]:
    """Return the config as a table, with the recipe's value of each key that the config does not set.

    A model of the user's own gets the records as they are: the recipe's features are for its own model.
    """
    table = config.as_dict()
    for name, value in recipe.settings.items():
        if not isinstance(value, Mapping):
            table[name] = table[name] if name in config.model_fields_set else value
            continue
        if own_model and name in ("data", "model"):
            continue
        given = getattr(config, name)
        own = _given_keys(given) if name in config.model_fields_set else set()
        if name == "data" and "features" in own:
            continue
        table[name] = {**value, **{key: each for key, each in table[name].items() if key in own}}
        if name in ("data", "model"):
            table[name]["name"] = given.name
    table["algorithm"]["name"] = recipe.settings["algorithm"]["name"]
    return table


def _given_keys(section: BaseModel) -> set[str]:
    """The keys of a section that the config sets itself."""
    extra = set(section.parameters) if isinstance(section, NamedPart) else set()
    return (section.model_fields_set | extra) - ({"name"} if isinstance(section, NamedPart) else set())


def require_method(config: Config, where: str) -> None:
    """Raise if a config leaves the choice of the method to a recipe where each party must have the same settings."""
    if config.algorithm.name == AUTO:
        raise TacitError(
            f'{where}: algorithm = "auto" is resolved from data, so it cannot be used between sites: name a method. '
            "`tacit plan CONFIG --write FILE` writes a config with the settings of the recipe"
        )
