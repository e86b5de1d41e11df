"""Learning tasks: models, data sets, shards, batches and clipped gradients."""

from tacit.tasks.clip import Clip
from tacit.tasks.clipping import ClipNorm, clip_norms
from tacit.tasks.data import Dataset, Split, datasets, fitting_split
from tacit.tasks.data.checks import Label
from tacit.tasks.evaluation import Metrics
from tacit.tasks.gradients.memory import keep_freed_memory
from tacit.tasks.layout import Layout, join
from tacit.tasks.model import Model
from tacit.tasks.models import models
from tacit.tasks.sampling import Sampler
from tacit.tasks.shards import STABLE_FOR, shards
from tacit.tasks.task import Task

__all__ = [
    "STABLE_FOR",
    "Clip",
    "ClipNorm",
    "Dataset",
    "Label",
    "Layout",
    "Metrics",
    "Model",
    "Sampler",
    "Split",
    "Task",
    "clip_norms",
    "datasets",
    "fitting_split",
    "join",
    "keep_freed_memory",
    "models",
    "shards",
]
