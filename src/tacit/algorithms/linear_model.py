"""Linear classifiers: whether a model is one, and its parameters from weights and biases."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.tasks import Binary, Classification, Head, Layout, Task


def check_linear_classifier(task: Task, title: str) -> Head:
    """Return the head of a model whose outputs are W x + b, or W x, one per class (binary: one).

    Raises:
        TacitError: The model is another one. No record is used to find out.
    """
    layout, head = task.model.layout, task.head
    shapes = [shape for shape in layout.shapes if len(shape) == 2]
    if isinstance(head, Classification | Binary) and len(shapes) == 1 and layout.shared == layout.d:
        generator = torch.Generator().manual_seed(0)
        params, x = (torch.rand(size, generator=generator, dtype=torch.float64) for size in (layout.d, shapes[0][1]))
        named = layout.unflatten(params)
        weight = next(value for value in named.values() if value.dim() == 2)
        biases = [value for value in named.values() if value.dim() == 1]
        expected = weight @ x + (biases[0] if biases else 0.0)
        if len(named) == 1 + len(biases) <= 2:
            outputs = _outputs(task, params, x)
            if outputs is not None and outputs.shape == expected.shape and torch.allclose(outputs, expected):
                return head
    raise TacitError(
        f'{title} computes a linear classifier: set model = "logistic" and a task with classes, or choose another '
        "algorithm"
    )


def linear_parameters(layout: Layout, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the parameters (…, d) of a linear model with weights (…, C, d) and biases (…, C), if it has biases."""
    named = {name: weight if len(shape) == 2 else bias for name, shape in zip(layout.names, layout.shapes, strict=True)}
    return layout.flatten(named)


def _outputs(task: Task, params: Tensor, x: Tensor) -> Tensor | None:
    """The outputs of the model for one record; None if it does not accept a record without further axes."""
    try:
        with torch.no_grad():
            return task.model.outputs(params, x[None])[0]
    except (RuntimeError, TypeError, ValueError, TacitError):
        return None
