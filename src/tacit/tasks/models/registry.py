"""The table of built-in models, and what their makers have in common."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from tacit.errors import TacitError
from tacit.registry import Registry

models: Registry[nn.Module] = Registry("model", given=("inputs", "classes"))

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


def image(model: str, inputs: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """`inputs` as (channels, height, width), or a refusal."""
    if len(inputs) != 3:
        raise TacitError(
            f"model {model} takes images (channels, height, width), not inputs of shape {tuple(inputs)}; "
            "use logistic or mlp"
        )
    channels, height, width = inputs
    if min(height, width) < least:
        raise TacitError(f"model {model} takes images of at least {least}×{least} pixels, not {height}×{width}")
    return channels, height, width
