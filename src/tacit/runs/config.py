"""What a run is, as data: a TOML file or a dict, checked whole before anything happens."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import TacitError, unknown

FROM_PYTHON = "python: "  # the name of a part that was handed over as an object
_SECTIONS = ("data", "sharding", "model", "graph", "algorithm")


class Section(BaseModel):
    """Keys that are not there are refused, with the nearest that is."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(BaseModel):
    """A registered thing by `name`; the other keys are its parameters, checked by its registry."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Batch(Section):
    """`size` None takes all records in every draw."""

    size: int | None = Field(default=None, ge=1)
    sampling: Literal["poisson", "without-replacement", "permutation"] = "poisson"
    relation: Literal["add-remove", "replace-one"] | None = None


class PrivacyTarget(Section):
    """With `epsilon` the noise is solved for it; `budget` (by default the guaranteed target) may not be passed."""

    epsilon: float | None = None
    delta: float = Field(default=1e-5, gt=0, lt=1)
    calibration: Literal["guaranteed", "paper"] = "guaranteed"
    budget: float | None = None


class CostModel(Section):
    """Seconds a gradient and a round of communication take, and bytes a second a node can send."""

    gradient_time: float = Field(default=0.0, ge=0)
    link_time: float = Field(default=0.0, ge=0)
    bandwidth: float = Field(default=float("inf"), gt=0)


class Config(Section):
    """A whole run. The defaults are the embedded example."""

    name: str | None = None
    seed: int = 0
    rounds: int = Field(default=200, ge=1)
    evaluate_every: int | None = Field(default=None, ge=1)
    data: Choice = Choice(name="digits")
    sharding: Choice = Choice(name="iid")
    model: Choice = Choice(name="logistic")
    graph: Choice = Choice.model_validate({"name": "one-peer-exponential", "nodes": 10})
    algorithm: Choice = Choice.model_validate({"name": "dyn-d2p"})
    batch: Batch = Batch(size=32)
    privacy: PrivacyTarget = PrivacyTarget()
    network: CostModel = CostModel()

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "the config") -> Config:
        """
        >>> Config.parse({"rouns": 10})
        Traceback (most recent call last):
        tacit.errors.TacitError: unknown key of the config "rouns"; did you mean "rounds"?
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _sentence(error, where) from None

    @classmethod
    def load(cls, path: Path | None, settings: Iterable[str] = ()) -> Config:
        """The file at `path`, or the embedded example, with `key=value` settings on top."""
        data: dict[str, Any] = EXAMPLE if path is None else _read(path)
        for setting in settings:
            data = _with(data, setting)
        return cls.parse(data, "the config" if path is None else str(path))

    def as_dict(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


EXAMPLE: dict[str, Any] = {
    "name": "example",
    "rounds": 200,
    "data": {"name": "digits"},
    "model": {"name": "logistic"},
    "graph": {"name": "one-peer-exponential", "nodes": 10},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "clip": 1.0, "rho_c": 2.0, "rho_mu": 2.0},
    "batch": {"size": 32},
    "privacy": {"epsilon": 3.0, "delta": 1e-4},
}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise TacitError(f"cannot read the config {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TacitError(f"{path} is not valid TOML: {error}") from None


def _with(data: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """`data` with "a.b=value" put in; the value is TOML where it can be read as such, else a string.

    A new `name` for a section starts it afresh: the other one's parameters would mean nothing to it.
    """
    key, equals, text = setting.partition("=")
    if not equals:
        raise TacitError(f'--set takes key=value, such as rounds=100 or algorithm.lr=0.1, not "{setting}"')
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    head, dot, tail = key.strip().partition(".")
    if not dot:
        return {**data, head: value}
    section = data.get(head, {})
    if not isinstance(section, Mapping):
        raise TacitError(f'--set {setting}: "{head}" is not a section')
    if head in _SECTIONS and tail == "name" and section.get("name") != value:
        section = {"nodes": section["nodes"]} if "nodes" in section else {}
    return {**data, head: {**section, tail: value}}


def _sentence(error: ValidationError, where: str) -> TacitError:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        fields: Any = Config
        for part in path[:-1]:
            fields = fields.model_fields[part].annotation
        section = f" [{'.'.join(path[:-1])}] in" if path[:-1] else ""
        return unknown(f"key of{section} {where}", path[-1], fields.model_fields)
    return TacitError(f"{where}: {'.'.join(path)} = {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}")
