"""Learning tasks: models, data sets, shards, batches and clipped gradients."""

from tacit.tasks import content_shards  # noqa: F401 (registers its shardings)
from tacit.tasks.augmentation import Augmentation, augmentations
from tacit.tasks.clip import Clip, Clipping
from tacit.tasks.clipping import ClipNorm, clip_norms
from tacit.tasks.column_ranges import RANGES_PURPOSE, column_histograms, use_ranges
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
from tacit.tasks.features import FeatureDescription, FeatureMap, features
from tacit.tasks.features.build import UserFeature, build_features, with_features
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
from tacit.tasks.range_estimate import estimate_ranges
from tacit.tasks.sampling import Sampler
from tacit.tasks.shards import STABLE_FOR, shards
from tacit.tasks.target import Label, Target, TargetKind
from tacit.tasks.task import Task
from tacit.tasks.weights import Weighting, node_weights

__all__ = [
    "RANGES_PURPOSE",
    "STABLE_FOR",
    "Augmentation",
    "Binary",
    "CellCounter",
    "Classification",
    "Clip",
    "ClipNorm",
    "Clipping",
    "Counts",
    "CsvTable",
    "Dataset",
    "DecimalMark",
    "FeatureDescription",
    "FeatureMap",
    "Forward",
    "FrameTable",
    "Head",
    "Label",
    "Layout",
    "Metrics",
    "Missing",
    "Model",
    "MultiLabel",
    "Normalise",
    "Predictions",
    "Ranges",
    "Regression",
    "Sampler",
    "Split",
    "TableCheck",
    "TableDraft",
    "TableSchema",
    "TableSource",
    "Target",
    "TargetKind",
    "Task",
    "UserFeature",
    "Weighting",
    "augmentations",
    "build_features",
    "cell_notes",
    "check_table",
    "clip_norms",
    "column_histograms",
    "datasets",
    "default_head",
    "draft_table",
    "estimate_ranges",
    "features",
    "fitting_split",
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
    "read_table",
    "refuse_mismatch",
    "shards",
    "tensor_output",
    "use_ranges",
    "with_features",
]
