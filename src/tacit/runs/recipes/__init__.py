"""Recipes: the best known settings for a kind of records, for configs with `algorithm = "auto"`."""

from tacit.runs.recipes.apply import apply_recipe, require_method
from tacit.runs.recipes.recipe import RECIPES, PublicFacts, Recipe, fitting_recipe, recipe_line

__all__ = ["RECIPES", "PublicFacts", "Recipe", "apply_recipe", "fitting_recipe", "recipe_line", "require_method"]
