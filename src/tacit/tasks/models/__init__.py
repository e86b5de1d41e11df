"""Built-in models. None uses batch statistics, so the output for a record depends on that record only."""

from tacit.tasks.models.adapter import Forward, tensor_output
from tacit.tasks.models.basic import cnn, logistic, mlp
from tacit.tasks.models.check import check_independence, check_module
from tacit.tasks.models.nonconvex import nonconvex_logistic
from tacit.tasks.models.registry import models
from tacit.tasks.models.resnet import resnet10, resnet18
from tacit.tasks.models.vit import PositionEmbedding, vit

__all__ = [
    "Forward",
    "PositionEmbedding",
    "check_independence",
    "check_module",
    "cnn",
    "logistic",
    "mlp",
    "models",
    "nonconvex_logistic",
    "resnet10",
    "resnet18",
    "tensor_output",
    "vit",
]
