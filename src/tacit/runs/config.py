"""What a run is, as data: a TOML file or a dict, checked whole before anything happens."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tacit.errors import TacitError, unknown
from tacit.registry import invalid
from tacit.runs.metrics import optional_metrics

FROM_PYTHON = "python: "  # the name of a part that was handed over as an object
CHOICES = ("data", "sharding", "model", "graph", "algorithm")


M = TypeVar("M", bound=BaseModel)


class Section(BaseModel):
    """Keys that are not there are refused, with the nearest that is."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(BaseModel):
    """A registered thing by `name`; the other keys are its parameters, checked by its registry."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @model_validator(mode="before")
    @classmethod
    def _only_a_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Batch(Section):
    """`size` None takes all records in every draw. A permutation is shuffled anew every `epochs` epochs."""

    size: int | None = Field(default=None, ge=1)
    sampling: Literal["poisson", "without-replacement", "permutation"] = "poisson"
    relation: Literal["add-remove", "replace-one"] | None = None
    epochs: int = Field(default=1, ge=1)


class PrivacyTarget(Section):
    """The noise is solved for `epsilon`; `budget`, by default the guaranteed target, may not be passed."""

    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    calibration: Literal["guaranteed", "paper"] = "guaranteed"
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class CostModel(Section):
    """Seconds a gradient and a round of communication take, and bytes a second a node can send."""

    gradient_time: float = Field(default=0.0, ge=0)
    link_time: float = Field(default=0.0, ge=0)
    bandwidth: float = Field(default=float("inf"), gt=0)


class Drops(Section):
    """Keys of [graph] that put drop-out around it: chances a round that a link or a node fails."""

    drop_links: float = Field(default=0.0, ge=0, lt=1)
    drop_nodes: float = Field(default=0.0, ge=0, lt=1)
    drop_seed: int = Field(default=0, ge=0)


class Penalty(Section):
    """Keys of [model] that add to what is minimised: weight_decay · ‖parameters‖²/2, which belongs to no record."""

    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class Sharing(Section):
    """Keys of [algorithm] that leave some parameters at their node: which are shared, and how the others learn."""

    share: tuple[str, ...] | None = None
    local: Literal["private", "exact"] = "private"


class Config(Section):
    """A whole run."""

    name: str | None = Field(default=None, pattern=r"^[\w\-. ]*\w$")
    seed: int = Field(default=0, ge=0, lt=2**63)
    rounds: int = Field(default=200, ge=1)
    evaluate_every: int | None = Field(default=None, ge=1)
    data: Choice = Choice(name="digits")
    sharding: Choice = Choice(name="iid")
    model: Choice = Choice(name="logistic")
    graph: Choice = Choice.model_validate({"name": "one-peer-exponential", "nodes": 10})
    algorithm: Choice = Choice(name="dyn-d2p")
    batch: Batch = Batch(size=32)
    privacy: PrivacyTarget = PrivacyTarget()
    network: CostModel = CostModel()
    measure: tuple[str, ...] = ()

    @field_validator("measure")
    @classmethod
    def _measure_optional_metrics(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = optional_metrics()
        for name in names:
            if name not in known:
                raise unknown("optional metric", name, known)
        return names

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "the config") -> Config:
        """
        >>> Config.parse({"rouns": 10})
        Traceback (most recent call last):
        tacit.errors.TacitError: unknown key of the config "rouns"; did you mean "rounds"?
        >>> Config.parse({"rounds": 0}, "my.toml")
        Traceback (most recent call last):
        tacit.errors.TacitError: my.toml: rounds = 0 should be greater than or equal to 1
        """
        return checked(cls, data, where)

    @classmethod
    def load(cls, path: Path | None, settings: Iterable[str] = ()) -> Config:
        """The file at `path`, or the embedded example, with `key=value` settings on top."""
        data: dict[str, Any] = EXAMPLE if path is None else read_toml(path)
        for setting in settings:
            data = with_setting(data, setting)
        return cls.parse(data, "the config" if path is None else str(path))

    def as_dict(self) -> dict[str, Any]:
        table = self.model_dump(exclude_none=True)
        table["measure"] = list(self.measure)  # as a file gives it back
        return table


EXAMPLE: dict[str, Any] = {
    "name": "example",
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "clip": 1.0, "rho_c": 2.0, "rho_mu": 2.0},
    "privacy": {"epsilon": 3.0, "delta": 1e-4},
}
"""What differs from the defaults in the run that needs no config."""


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except IsADirectoryError:
        kept = path / "config.toml"
        raise TacitError(f"{path} is a folder{f': give {kept}' if kept.exists() else ', not a config'}") from None
    except OSError as error:
        raise TacitError(f"cannot read the config {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no TOML, no text, a number of thousands of digits; nested too deep
        raise TacitError(f"{path} is not valid TOML: {error}") from None


def with_setting(data: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """`data` with "a.b=value" put in, or, without a value, taken out. What cannot be read as TOML is a string.

    A new `name` for a section starts it afresh: the other one's parameters would mean nothing to it.
    """
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not equals or not key:
        raise TacitError(f'--set takes key=value, such as rounds=100 or algorithm.lr=0.1, not "{setting}"')
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    head, dot, tail = key.partition(".")
    if head in CHOICES and not dot and isinstance(value, str):
        dot, tail = ".", "name"
    if not dot:
        return _put(data, head, value)
    section = data.get(head, Config().as_dict().get(head, {}))
    if isinstance(section, str):
        section = {"name": section}
    if not isinstance(section, Mapping):
        raise TacitError(f'--set {setting}: "{head}" is not a section')
    if head in CHOICES and tail == "name" and section.get("name") != value:
        section = {"nodes": section["nodes"]} if "nodes" in section else {}
    return {**data, head: _put(section, tail, value)}


def _put(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    kept = {name: old for name, old in table.items() if name != key}
    return kept if value == "" else {**kept, key: value}


def checked(section: type[M], data: Mapping[str, Any], where: str) -> M:
    """What `data` say, or a sentence about the first of them that is wrong."""
    try:
        return section.model_validate(data)
    except ValidationError as error:
        raise _sentence(error, where, section) from None


def _sentence(error: ValidationError, where: str, fields: type[BaseModel]) -> TacitError:
    errors = error.errors()  # a key that is misspelt is missing too
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        within = [part for part in first["loc"][:-1] if isinstance(part, str)]  # not places in a list of sections
        for part in within:
            kind: Any = fields.model_fields[part].annotation
            fields = (get_args(kind) or (kind,))[0]
        section = f" [{'.'.join(within)}] in" if within else ""
        return unknown(f"key of{section} {where}", path[-1], fields.model_fields)
    if first["type"] == "model_type":
        return TacitError(f"{where}: {path[0]} = {first['input']!r} should be a section of keys and values")
    return invalid(where, error)
