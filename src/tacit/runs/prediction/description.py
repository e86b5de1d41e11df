"""What a model file contains besides parameters: all that is needed to predict without the training data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from tacit.errors import TacitError
from tacit.registry import invalid
from tacit.runs.config_sections import PYTHON_OBJECT_PREFIX, RegularisationKeys
from tacit.runs.prediction.feature_facts import FeatureFacts
from tacit.runs.prediction.model_privacy import Described, ModelPrivacy
from tacit.tasks import DecimalMark, Head, Label, Layout, Normalise, Target, heads, models, record_preparation
from tacit.version import __version__

if TYPE_CHECKING:
    from tacit.runs.run import Run

METADATA_KEY = "tacit"  # of the description in files that have metadata: safetensors, ONNX, TorchScript
_FORMAT = 1
_READING = ("separator", "decimal", "encoding", "multiline")
_NO_MODULE = "the model was created from a loss function, so it has parameters but no module"


class ArchitectureDescription(Described):
    """How the module is created.

    Attributes:
        name: The registered name, or the file and name of a user's module such as "mine.py:Net"; None if the module was
            given as a Python object.
        module: The name of the module's class; None without a module.
        parameters: The parameters of a named model.
        inputs: The shape of one record.
        outputs: The number of outputs per record, if the head needs a certain number.
        tokens: Whether the records are integers.
        note: What a reader must do to create the module, if the name is not sufficient.
    """

    name: str | None
    module: str | None
    parameters: dict[str, Any]
    inputs: list[int]
    outputs: int | None
    note: str | None
    tokens: bool = False


class HeadDescription(Described):
    """The head that turns outputs into predictions. `name` is None if the head is not a registered one."""

    name: str | None
    kind: str
    parameters: dict[str, Any]


class TargetDescription(Described):
    """What the model predicts; see `Target`."""

    kind: str
    labels: list[bool | Label]
    range: list[float] | None
    name: str

    def target(self) -> Target:
        """Return the target."""
        span = None if self.range is None else (self.range[0], self.range[1])
        return Target(self.kind, tuple(self.labels), span, self.name)  # type: ignore[arg-type]  # Target checks it


class ModelDescription(Described):
    """The metadata of a model file.

    Attributes:
        format: The version of this description.
        tacit: The version of Tacit that has written the file.
        rounds: After how many rounds the model was taken.
        node: The node whose model it is; None: the mean of all nodes.
        names: The trained parameters in the order of the columns of models.safetensors.
        shapes: Their shapes.
        shared: How many of these columns the nodes share.
        complete: Whether the file has all parameters. The mean of nodes with local parameters has only the shared ones.
        head: The head; None if the outputs have no known meaning.
        table: The schema of the table from which the records are prepared; None without one.
        reading: The form of csv files, as far as it was declared: separator, decimal mark, encoding, multiline.
        normalise: How every record is divided by its own norm.
        decimal: The decimal mark of the training table, which is also used for text in data frames.
        prepared: Which released statistics prepare a record before the module, in this order: "mean", "whitening". The
            file has them beside the parameters, as `preparation.mean` and `preparation.whitening`.
        features: How the inputs of the module are computed from raw records; None: they are the records.
    """

    format: int
    tacit: str
    rounds: int = Field(ge=0)
    node: int | None
    names: list[str]
    shapes: list[list[int]]
    shared: int
    complete: bool
    architecture: ArchitectureDescription
    head: HeadDescription | None
    target: TargetDescription
    table: dict[str, Any] | None
    reading: dict[str, str | bool]
    normalise: Normalise
    decimal: DecimalMark = "."
    prepared: list[str] = Field(default_factory=list)
    features: FeatureFacts | None = None
    privacy: ModelPrivacy

    @property
    def layout(self) -> Layout:
        """The positions of the parameters in the rows of models.safetensors."""
        shapes = tuple(tuple(shape) for shape in self.shapes)
        return Layout(tuple(self.names), shapes, self.shared, self.shared)

    @classmethod
    def parse(cls, text: str, where: str) -> ModelDescription:
        """Return the description in a JSON text; `where` names it in errors.

        Raises:
            TacitError: The text is not a description.
        """
        try:
            table = json.loads(text)
            if isinstance(table, dict) and table.get("format", _FORMAT) != _FORMAT:
                raise TacitError(f"{where} was written by another version of Tacit, which can read it")
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise invalid(f"{where} is damaged", error) from None
        except (ValueError, RecursionError):
            raise TacitError(f"{where} is damaged: its metadata are not JSON") from None


def describe(run: Run, *, node: int | None, complete: bool) -> ModelDescription:
    """Return the description of the model of a node, or of the mean model, of a run at this moment."""
    task, layout = run.task, run.task.model.layout
    data, is_site = task.data, not run.has_all_nodes
    return ModelDescription(
        format=_FORMAT,
        tacit=__version__,
        rounds=run.t,
        node=node,
        names=list(layout.names),
        shapes=[list(shape) for shape in layout.shapes],
        shared=layout.shared,
        complete=complete,
        architecture=_architecture(run),
        head=None if task.head is None else _head(task.head),
        target=_target(data.target, run.config.get("data", {})),
        table=None if data.schema is None else data.schema.to_dict(),
        reading=_reading(run.config.get("data", {})),
        normalise=data.normalise,
        decimal=data.decimal,
        prepared=[] if (prepared := record_preparation(task)) is None else list(dict(prepared.named_buffers())),
        features=None if data.features is None else FeatureFacts.of(data.features.description),
        privacy=ModelPrivacy.of(run.privacy, is_site=is_site),
    )


def _architecture(run: Run) -> ArchitectureDescription:
    model, head = run.task.model, run.task.head
    settings: Mapping[str, Any] = run.config.get("model", {})
    name = str(settings.get("name", PYTHON_OBJECT_PREFIX))
    module = model.trained_module(model.initial())
    kind, note, known = None if module is None else type(module).__name__, None, name in models
    if module is None:
        note = _NO_MODULE
    elif name.startswith(PYTHON_OBJECT_PREFIX):
        given = f"tacit.Model({kind}, forward=...)" if model.forward is not None else f"a {kind}"
        note = f"the module was given as a Python object: pass {given} to tacit.load(..., model=...)"
    elif not known:
        name = Path(name).name
        note = f"the module is defined in a user's file: pass it with model={name!r} (--model {name})"
    own_keys = {"name", *RegularisationKeys.model_fields}
    named = not name.startswith(PYTHON_OBJECT_PREFIX)
    return ArchitectureDescription(
        name=name if named else None,
        module=kind,
        parameters={key: value for key, value in settings.items() if key not in own_keys} if named else {},
        inputs=list(run.task.data.inputs),
        outputs=None if head is None else head.outputs,
        note=note,
        tokens=model.takes_tokens,
    )


def _head(head: Head) -> HeadDescription:
    registered = next((name for name in heads if heads.registered(name) is type(head)), None)
    values = {each.name: getattr(head, each.name) for each in fields(head) if each.name != "target"}
    return HeadDescription(name=registered, kind=type(head).__name__, parameters=_plain(values) if registered else {})


def _target(target: Target, settings: Mapping[str, Any]) -> TargetDescription:
    """Describe a target. Of numbers in a csv file, the name of the target is only in the settings of the data."""
    label = settings.get("label")
    return TargetDescription(
        kind=target.kind,
        labels=[_plain(label) for label in target.labels],
        range=None if target.range is None else list(map(float, target.range)),
        name=target.name or (label if isinstance(label, str) else ""),
    )


def _reading(settings: Mapping[str, Any]) -> dict[str, str | bool]:
    return {key: value for key in _READING if isinstance(value := settings.get(key), str | bool)}


def _plain(value: Any) -> Any:
    """Return a value as JSON represents it: tuples as lists, numpy numbers as numbers."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value
