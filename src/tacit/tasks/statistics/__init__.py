"""Statistics of records: sums over the records of a node, of which each record's part is bounded."""

from tacit.registry import discover
from tacit.tasks.statistics.base import MAX_RECORDS, Statistic, bounded_total, check_statistic, statistics
from tacit.tasks.statistics.class_moments import ClassMoments, class_moments
from tacit.tasks.statistics.column_histogram import ColumnHistogram
from tacit.tasks.statistics.gram import Gram, gram_matrix
from tacit.tasks.statistics.histogram import Histogram
from tacit.tasks.statistics.mean import Mean
from tacit.tasks.statistics.quantiles import quantiles
from tacit.tasks.statistics.stacked import Stacked

discover(__name__)

__all__ = [
    "MAX_RECORDS",
    "ClassMoments",
    "ColumnHistogram",
    "Gram",
    "Histogram",
    "Mean",
    "Stacked",
    "Statistic",
    "bounded_total",
    "check_statistic",
    "class_moments",
    "gram_matrix",
    "quantiles",
    "statistics",
]
