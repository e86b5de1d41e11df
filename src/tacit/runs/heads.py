"""The head of a run: the learning task that a config names, or the one that fits the data and the model."""

from __future__ import annotations

from torch import nn

from tacit.errors import TacitError
from tacit.runs.config_sections import AUTO, NamedPart
from tacit.tasks import Dataset, Head, Model, default_head, heads, refuse_mismatch


def build_head(part: NamedPart, data: Dataset) -> Head:
    """The learning task that a config names; by default the one that fits the targets of the data."""
    name = default_head(data.target) if part.name == AUTO else part.name
    with refuse_mismatch(declared=data.declared):
        head = heads.build(name, {"target": data.target, **part.parameters})
    if not isinstance(head, Head):
        raise TacitError(f"{part.name} is not a task: derive it from tacit.Head")
    return head


def head_of_module(module: nn.Module, part: NamedPart, data: Dataset) -> Head:
    """The learning task of a user's module. One output for two classes is the logit of the second one."""
    if part.name == AUTO and data.classes == 2 and _has_one_output(module, data):
        part = NamedPart.model_validate({**part.model_dump(), "name": "binary"})
    return build_head(part, data)


def _has_one_output(module: nn.Module, data: Dataset) -> bool:
    """Whether a module has one output for one record. It is tried on a record of zeros."""
    return tuple(Model(module).trial_outputs(data.inputs, tokens=data.tokens).shape) in ((1,), (1, 1))
