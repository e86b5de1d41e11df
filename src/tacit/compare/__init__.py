"""Comparisons: several methods on one task at the same guaranteed ε, with several seeds."""

from tacit.compare.comparison import Comparison, compare
from tacit.compare.methods import ComparedMethod, compared_methods
from tacit.compare.table import comparison_table, mean_and_deviation

__all__ = ["ComparedMethod", "Comparison", "compare", "compared_methods", "comparison_table", "mean_and_deviation"]
