"""The registry of models, and helpers for the functions that create them."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from tacit.errors import TacitError
from tacit.registry import Registry

models: Registry[nn.Module] = Registry("model", given=("inputs", "classes"))
models.describe_parameters(
    activation="Function after every layer except the last.", biases="Whether linear layers have biases."
)

Size = Annotated[int, Field(ge=1)]
"""A number of units, channels or layers."""
Activation = Literal["tanh", "relu", "sigmoid", "gelu", "silu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def image_shape(model: str, inputs: tuple[int, ...], min_size: int = 1) -> tuple[int, int, int]:
    """Return `inputs` as (channels, height, width); raise if they are not images of at least this size."""
    if len(inputs) != 3:
        raise TacitError(
            f"model {model} needs images (channels, height, width), got inputs of shape {tuple(inputs)}; "
            "use logistic or mlp"
        )
    channels, height, width = inputs
    if min(height, width) < min_size:
        raise TacitError(f"model {model} needs images of at least {min_size}×{min_size} pixels, got {height}×{width}")
    return channels, height, width
