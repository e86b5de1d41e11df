"""Learning tasks: models, data sets, shards, batches and clipped gradients."""

from tacit.tasks import content_shards  # noqa: F401 (registers its shardings)
from tacit.tasks.augmentation import Augmentation, augmentations
from tacit.tasks.clip import Clip, Clipping
from tacit.tasks.clipping import ClipNorm, clip_norms
from tacit.tasks.data import (
    CsvTable,
    Dataset,
    DecimalMark,
    FrameTable,
    Missing,
    Normalise,
    Ranges,
    Split,
    TableSchema,
    TableSource,
    datasets,
    fitting_split,
    join_datasets,
    join_nodes,
    looks_like_identifier,
    normalised_records,
    number_of,
    numbers,
    open_table,
    read_table,
)
from tacit.tasks.evaluation import Metrics, Predictions, predict_tests
from tacit.tasks.features import FeatureDescription, FeatureMap, PixelScale, features
from tacit.tasks.features.build import FeatureName, build_features, feature_name, with_features
from tacit.tasks.features.public import refuse_own_data
from tacit.tasks.features.restore import restore_features
from tacit.tasks.gradient_request import GradientRequest, sum_together
from tacit.tasks.gradients.memory import keep_freed_memory
from tacit.tasks.heads import (
    Binary,
    Classification,
    Counts,
    Head,
    MultiLabel,
    Regression,
    default_head,
    heads,
    refuse_mismatch,
)
from tacit.tasks.inspection import CellCounter, TableCheck, TableDraft, cell_notes, check_table, draft_table
from tacit.tasks.layout import Layout, join
from tacit.tasks.model import Model
from tacit.tasks.models import Forward, models, tensor_output
from tacit.tasks.precision import Precision
from tacit.tasks.preparation import (
    RecordPreparation,
    prepare_records,
    record_preparation,
    use_ranges,
    whitening_matrix,
)
from tacit.tasks.range_estimate import estimate_ranges
from tacit.tasks.sampling import Sampler
from tacit.tasks.shards import STABLE_FOR, shards
from tacit.tasks.statistics import (
    ClassMoments,
    ColumnHistogram,
    Gram,
    Histogram,
    Mean,
    Stacked,
    Statistic,
    class_moments,
    gram_matrix,
    quantiles,
    statistics,
)
from tacit.tasks.target import Label, Target, TargetKind
from tacit.tasks.task import Task
from tacit.tasks.weights import Weighting, node_weights

__all__ = [
    "STABLE_FOR",
    "Augmentation",
    "Binary",
    "CellCounter",
    "ClassMoments",
    "Classification",
    "Clip",
    "ClipNorm",
    "Clipping",
    "ColumnHistogram",
    "Counts",
    "CsvTable",
    "Dataset",
    "DecimalMark",
    "FeatureDescription",
    "FeatureMap",
    "FeatureName",
    "Forward",
    "FrameTable",
    "GradientRequest",
    "Gram",
    "Head",
    "Histogram",
    "Label",
    "Layout",
    "Mean",
    "Metrics",
    "Missing",
    "Model",
    "MultiLabel",
    "Normalise",
    "PixelScale",
    "Precision",
    "Predictions",
    "Ranges",
    "RecordPreparation",
    "Regression",
    "Sampler",
    "Split",
    "Stacked",
    "Statistic",
    "TableCheck",
    "TableDraft",
    "TableSchema",
    "TableSource",
    "Target",
    "TargetKind",
    "Task",
    "Weighting",
    "augmentations",
    "build_features",
    "cell_notes",
    "check_table",
    "class_moments",
    "clip_norms",
    "datasets",
    "default_head",
    "draft_table",
    "estimate_ranges",
    "feature_name",
    "features",
    "fitting_split",
    "gram_matrix",
    "heads",
    "join",
    "join_datasets",
    "join_nodes",
    "keep_freed_memory",
    "looks_like_identifier",
    "models",
    "node_weights",
    "normalised_records",
    "number_of",
    "numbers",
    "open_table",
    "predict_tests",
    "prepare_records",
    "quantiles",
    "read_table",
    "record_preparation",
    "refuse_mismatch",
    "refuse_own_data",
    "restore_features",
    "shards",
    "statistics",
    "sum_together",
    "tensor_output",
    "use_ranges",
    "whitening_matrix",
    "with_features",
]
