"""From a config with `algorithm = "auto"` to one with the settings of a recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from tacit.errors import TacitError
from tacit.runs.config import Config
from tacit.runs.config_batch import batch_relation
from tacit.runs.config_sections import AUTO, FeatureKeys, NamedPart
from tacit.runs.data_part import build_data
from tacit.runs.key_graph import default_colluders
from tacit.runs.parts import UserParts, build_graph
from tacit.runs.recipes.adaptation import Setting
from tacit.runs.recipes.recipe import RECIPE_MODEL, PublicFacts, fitting_recipe


def apply_recipe(config: Config, parts: UserParts | None = None) -> tuple[Config, UserParts]:
    """Return the config with the settings of the recipe that fits its records, if its algorithm is "auto".

    Settings that the config has itself win. `recipe` of the returned config names the recipe. Other configs are
    returned as they are.

    Privacy:
        The recipe is chosen by the shape of the records and the kind of target. lr also depends on the number of
        records and on the settings of the config. All of these are public.

    Raises:
        TacitError: No recipe fits the records.
    """
    parts = parts or UserParts()
    if config.algorithm.name != AUTO or parts.algorithm is not None:
        return config, parts
    facts = _facts(config, parts)
    recipe = fitting_recipe(facts, config.recipe)
    settings = recipe.settings_for(_target(config, parts, facts), divides_privacy=_divides_privacy(config))
    table = _merged(config, settings)
    made = Config.parse({**table, "recipe": recipe.name}, f"the config with recipe {recipe.name}")
    return made, parts


def _facts(config: Config, parts: UserParts) -> PublicFacts:
    """Return the public facts about the records and the model."""
    part = NamedPart.model_validate(
        {key: value for key, value in config.data.model_dump().items() if key not in FeatureKeys.model_fields}
    )
    data = parts.data or build_data(part, batch_relation(config.batch))
    own_model = parts.model is not None or ("model" in config.model_fields_set and config.model.name != RECIPE_MODEL)
    facts = replace(PublicFacts.of(data), plain=own_model or data.private is not None)
    if facts.tokens and (parts.features or config.data.parameters.get("features")):  # whose values are numbers
        facts = replace(facts, tokens=False, inputs=(math.prod(facts.inputs),))
    return facts


def _divides_privacy(config: Config) -> bool:
    """Whether the noise can be divided between statistics and gradients."""
    return config.privacy.calibration == "guaranteed" and config.privacy.shares is None


def _target(config: Config, parts: UserParts, facts: PublicFacts) -> Setting | None:
    """Return what the noise in the mean depends on; None without a target ε."""
    goal = config.privacy
    if goal.epsilon is None:
        return None
    nodes = (parts.graph or build_graph(config.graph)).nodes
    colluders = goal.colluders if goal.colluders is not None else default_colluders(nodes)
    return Setting(facts.records, nodes, goal.epsilon, goal.delta, colluders if goal.noise == "paired" else None)


def _merged(config: Config, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config as a table, with the recipe's value of each key that the config does not set.

    The recipe's features are left out if the config has its own features, or its own scale of the records.
    """
    table = config.as_dict()
    for name, value in settings.items():
        if not isinstance(value, Mapping):
            table[name] = table[name] if name in config.model_fields_set else value
            continue
        given = getattr(config, name)
        own = _given_keys(given) if name in config.model_fields_set else set()
        if name == "data" and not own.isdisjoint({"features", "normalise"}):
            continue
        table[name] = {**value, **{key: each for key, each in table[name].items() if key in own}}
        if name in ("data", "model"):
            table[name]["name"] = given.name
    table["algorithm"]["name"] = settings["algorithm"]["name"]
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
