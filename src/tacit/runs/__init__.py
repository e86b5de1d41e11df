"""From a config to a finished run: the parts, the loop, and the observers that follow it."""

from tacit.runs import storage
from tacit.runs.build import from_config
from tacit.runs.canonical import canonical_settings, flat_settings, settings_digest
from tacit.runs.cell_group import Cell, CellGroup
from tacit.runs.checkpoint import Checkpoint
from tacit.runs.config import EXAMPLE_CONFIG, Config
from tacit.runs.config_batch import Batch, batch_relation
from tacit.runs.config_file import apply_settings, read_toml, setting_texts, setting_value, validate_section
from tacit.runs.config_schema import config_schema
from tacit.runs.config_sections import (
    ALGORITHM_KEYS,
    AUTO,
    PART_SECTIONS,
    PYTHON_OBJECT_PREFIX,
    ConfigSection,
    DropoutKeys,
    FeatureKeys,
    MixingKeys,
    NamedPart,
    PrivacyTarget,
    RegularisationKeys,
    SharingKeys,
)
from tacit.runs.config_template import config_template
from tacit.runs.data_part import build_data
from tacit.runs.evaluated_run import EvaluatedRun, history_frame
from tacit.runs.evaluator import Evaluator
from tacit.runs.figures import DEVIATION, PlottedCurve, XAxis, plot_curves
from tacit.runs.finished_run import FinishedRun, has_ended, load, require_files
from tacit.runs.grouped import run_grouped, task_key
from tacit.runs.key_graph import KEY_GRAPHS, default_colluders
from tacit.runs.observer import Observer, Row
from tacit.runs.other_tests import utility_on
from tacit.runs.parts import (
    Shards,
    UserParts,
    build_algorithm,
    build_graph,
    build_model,
    build_shards,
    build_task,
    check_names,
)
from tacit.runs.prediction import (
    EXPORT_SUFFIXES,
    ModelDescription,
    ModelPrivacy,
    PredictionWriter,
    RecordFile,
    TrainedModel,
    covers_models,
    export_model,
    write_model,
)
from tacit.runs.preparation import (
    longest_statistic,
    release_statistic,
    release_statistics,
    released_ranges,
    restore_preparation,
    with_paired_preparation,
)
from tacit.runs.preparation_stages import PREPARATION_TITLES, stage_of
from tacit.runs.privacy_meter import TESTED_NOTE, PrivacyMeter, finite_or_none
from tacit.runs.privacy_target import DEFAULT_RATIO, apply_privacy_target
from tacit.runs.progress import ProgressBar, ProgressCounter
from tacit.runs.recipes import (
    RECIPES,
    PublicFacts,
    Recipe,
    apply_recipe,
    fitting_recipe,
    recipe_line,
    require_method,
)
from tacit.runs.recorded_facts import RecordedFacts
from tacit.runs.resolved_config import evaluation_interval, resolved_config
from tacit.runs.run import Run
from tacit.runs.run_facts import check_intact, code_digests, record_end, record_files, record_run_start, record_start
from tacit.runs.run_folder import RunFolder
from tacit.runs.run_summary import run_size
from tacit.runs.saved_results import ensure_folder, run_saved
from tacit.runs.secret_noise import check_secret_noise, reserve_records
from tacit.runs.verification import Verification, fingerprint, load_private_key, load_public_key, verify
from tacit.runs.workers import SynchronisedInterrupt, launch_workers

__all__ = [
    "ALGORITHM_KEYS",
    "AUTO",
    "DEFAULT_RATIO",
    "DEVIATION",
    "EXAMPLE_CONFIG",
    "EXPORT_SUFFIXES",
    "KEY_GRAPHS",
    "PART_SECTIONS",
    "PREPARATION_TITLES",
    "PYTHON_OBJECT_PREFIX",
    "RECIPES",
    "TESTED_NOTE",
    "Batch",
    "Cell",
    "CellGroup",
    "Checkpoint",
    "Config",
    "ConfigSection",
    "DropoutKeys",
    "EvaluatedRun",
    "Evaluator",
    "FeatureKeys",
    "FinishedRun",
    "MixingKeys",
    "ModelDescription",
    "ModelPrivacy",
    "NamedPart",
    "Observer",
    "PlottedCurve",
    "PredictionWriter",
    "PrivacyMeter",
    "PrivacyTarget",
    "ProgressBar",
    "ProgressCounter",
    "PublicFacts",
    "Recipe",
    "RecordFile",
    "RecordedFacts",
    "RegularisationKeys",
    "Row",
    "Run",
    "RunFolder",
    "Shards",
    "SharingKeys",
    "SynchronisedInterrupt",
    "TrainedModel",
    "UserParts",
    "Verification",
    "XAxis",
    "apply_privacy_target",
    "apply_recipe",
    "apply_settings",
    "batch_relation",
    "build_algorithm",
    "build_data",
    "build_graph",
    "build_model",
    "build_shards",
    "build_task",
    "canonical_settings",
    "check_intact",
    "check_names",
    "check_secret_noise",
    "code_digests",
    "config_schema",
    "config_template",
    "covers_models",
    "default_colluders",
    "ensure_folder",
    "evaluation_interval",
    "export_model",
    "fingerprint",
    "finite_or_none",
    "fitting_recipe",
    "flat_settings",
    "from_config",
    "has_ended",
    "history_frame",
    "launch_workers",
    "load",
    "load_private_key",
    "load_public_key",
    "longest_statistic",
    "plot_curves",
    "read_toml",
    "recipe_line",
    "record_end",
    "record_files",
    "record_run_start",
    "record_start",
    "release_statistic",
    "release_statistics",
    "released_ranges",
    "require_files",
    "require_method",
    "reserve_records",
    "resolved_config",
    "restore_preparation",
    "run_grouped",
    "run_saved",
    "run_size",
    "setting_texts",
    "setting_value",
    "settings_digest",
    "stage_of",
    "storage",
    "task_key",
    "utility_on",
    "validate_section",
    "verify",
    "with_paired_preparation",
    "write_model",
]
