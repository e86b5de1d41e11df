"""Chains of linear and elementwise layers, which the stacked engine supports."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from tacit.tasks.gradients.objective import ModuleObjective, Objective
from tacit.tasks.models.per_record import ELEMENTWISE


@dataclass(frozen=True)
class ChainLayer:
    """One layer of the chain; `weight` and `bias` are the names of a linear layer's parameters."""

    layer: nn.Module
    weight: str = ""
    bias: str | None = None


def chain(objective: Objective) -> list[ChainLayer] | None:
    """Return the layers of a chain of Flatten, Linear and elementwise layers; None for any other model."""
    if not isinstance(objective, ModuleObjective):
        return None
    steps = list(_steps(objective.module, ""))
    used = [name for step in steps for name in (step.weight, step.bias) if name]
    # A layer that is used twice has no single outer product, and a frozen one has no columns in the vector.
    if sorted(used) != sorted(objective.layout.names) or not all(
        step.weight or _is_supported(step.layer) for step in steps
    ):
        return None
    return steps


def _steps(module: nn.Module, prefix: str) -> Iterator[ChainLayer]:
    if type(module) is nn.Sequential:
        for name, child in module._modules.items():  # named_children omits the second use of a layer
            assert child is not None
            yield from _steps(child, f"{prefix}{name}.")
    elif type(module) is nn.Linear:
        yield ChainLayer(module, f"{prefix}weight", f"{prefix}bias" if module.bias is not None else None)
    else:
        yield ChainLayer(module)


def flattens(layer: nn.Module) -> bool:
    """Return whether a layer makes every record flat."""
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def _is_supported(layer: nn.Module) -> bool:
    return type(layer) in ELEMENTWISE or flattens(layer)


def only_linear_layer(steps: list[ChainLayer]) -> nn.Linear | None:
    """Return the linear layer of a chain that contains nothing else except Flatten; None for any other chain."""
    layers = [step.layer for step in steps if not flattens(step.layer)]
    return layers[0] if len(layers) == 1 and isinstance(layers[0], nn.Linear) else None


def accepts(steps: list[ChainLayer], x: Tensor) -> bool:
    """Return whether the records of x (n, B, …) are flat when they reach the first linear layer."""
    return x.dim() == 3 or flattens(next(s.layer for s in steps if s.weight or flattens(s.layer)))


def split_at_first_linear(steps: list[ChainLayer]) -> tuple[list[ChainLayer], list[ChainLayer]]:
    """Return the layers before the first linear layer, and the others."""
    first = next(i for i, step in enumerate(steps) if step.weight)
    return steps[:first], steps[first:]


def widest(steps: list[ChainLayer]) -> int:
    """Return the largest number of inputs or outputs of a linear layer."""
    return max(max(s.layer.in_features, s.layer.out_features) for s in steps if isinstance(s.layer, nn.Linear))
