"""Comparisons: several methods on one task at the same guaranteed ε, with several seeds."""

from tacit.comparisons.comparison import Comparison, run_comparison
from tacit.comparisons.curves import mean_and_deviation, mean_curve
from tacit.comparisons.frame import comparison_frame, frame_rows
from tacit.comparisons.methods import ComparedMethod, Method, compared_methods, method_config
from tacit.comparisons.plot import plot_comparison
from tacit.comparisons.table import ComparisonTable, comparison_table, table_of

__all__ = [
    "ComparedMethod",
    "Comparison",
    "ComparisonTable",
    "Method",
    "compared_methods",
    "comparison_frame",
    "comparison_table",
    "frame_rows",
    "mean_and_deviation",
    "mean_curve",
    "method_config",
    "plot_comparison",
    "run_comparison",
    "table_of",
]
