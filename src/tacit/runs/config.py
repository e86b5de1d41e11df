"""The config of a run: a TOML file or a dict, checked completely before anything happens."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tacit.errors import TacitError, unknown
from tacit.privacy import Relation, sampling_kinds
from tacit.registry import invalid
from tacit.runs.metrics import optional_metrics

PYTHON_OBJECT_PREFIX = "python: "  # starts the name of a part that was given as an object
PART_SECTIONS = ("data", "sharding", "model", "graph", "algorithm")

M = TypeVar("M", bound=BaseModel)


class ConfigSection(BaseModel):
    """A section of a config. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NamedPart(BaseModel):
    """A section that names a registered part; its other keys are the parameters, which the registry checks."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Batch(ConfigSection):
    """How records are drawn for one step.

    `size` is the (expected) batch size; without it, every step uses all records. A permutation is reshuffled every
    `epochs` epochs.
    """

    size: int | None = Field(default=None, ge=1)
    sampling: str = "poisson"
    relation: Relation | None = None
    epochs: int = Field(default=1, ge=1)

    @field_validator("sampling")
    @classmethod
    def _sampling_is_registered(cls, value: str) -> str:
        kinds = [kind for kind in sampling_kinds if kind != "none"]
        if value not in kinds:
            raise ValueError(f"Input should be one of {', '.join(kinds)}")
        return value


class PrivacyTarget(ConfigSection):
    """The privacy to reach: noise is calibrated for `epsilon`, and a release that would exceed `budget` is refused.

    Without `budget`, a guaranteed `epsilon` is also the budget. `population_budget` is for all runs on a `population`.
    """

    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    calibration: Literal["guaranteed", "paper"] = "guaranteed"
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    population: str | None = None
    population_budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class CostModel(ConfigSection):
    """Seconds per gradient and per round of communication, and bytes per second that a node can send."""

    gradient_time: float = Field(default=0.0, ge=0)
    link_time: float = Field(default=0.0, ge=0)
    bandwidth: float = Field(default=float("inf"), gt=0)


class DropoutKeys(ConfigSection):
    """Keys of [graph] for every graph: the probabilities that a link or a node fails in a round."""

    drop_links: float = Field(default=0.0, ge=0, lt=1)
    drop_nodes: float = Field(default=0.0, ge=0, lt=1)
    drop_seed: int = Field(default=0, ge=0)


class RegularisationKeys(ConfigSection):
    """Keys of [model] for every model: weight_decay · ‖parameters‖²/2 is added to the loss; no record changes it."""

    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class SharingKeys(ConfigSection):
    """Keys of [algorithm] for methods with partial sharing: which parameters are shared, and how the others are
    trained."""

    share: tuple[str, ...] | None = None
    local: Literal["private", "exact"] = "private"


class Config(ConfigSection):
    """The config of a complete run."""

    name: str | None = Field(default=None, pattern=r"^[\w\-. ]*\w$")
    seed: int = Field(default=0, ge=0, lt=2**63)
    noise: Literal["simulated", "secret"] = "simulated"
    rounds: int = Field(default=200, ge=1)
    evaluate_every: int | None = Field(default=None, ge=1)
    data: NamedPart = NamedPart(name="digits")
    sharding: NamedPart = NamedPart(name="iid")
    model: NamedPart = NamedPart(name="logistic")
    graph: NamedPart = NamedPart.model_validate({"name": "one-peer-exponential", "nodes": 10})
    algorithm: NamedPart = NamedPart(name="dyn-d2p")
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
        """Check a config given as a dict; `where` names it in errors.

        >>> Config.parse({"rouns": 10})
        Traceback (most recent call last):
        tacit.errors.TacitError: unknown key of the config "rouns"; did you mean "rounds"?
        >>> Config.parse({"rounds": 0}, "my.toml")
        Traceback (most recent call last):
        tacit.errors.TacitError: my.toml: rounds = 0 should be greater than or equal to 1
        """
        return validate_section(cls, data, where)

    @classmethod
    def load(cls, path: Path | None, settings: Iterable[str] = ()) -> Config:
        """Read the file at `path`, or the embedded example without one, and apply `key=value` settings."""
        data: dict[str, Any] = EXAMPLE_CONFIG if path is None else read_toml(path)
        for setting in settings:
            data = apply_setting(data, setting)
        return cls.parse(data, "the config" if path is None else str(path))

    def as_dict(self) -> dict[str, Any]:
        """The config as a TOML file returns it when it is read again."""
        table = self.model_dump(exclude_none=True)
        table["measure"] = list(self.measure)
        return table


EXAMPLE_CONFIG: dict[str, Any] = {
    "name": "example",
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "clip": 1.0, "rho_c": 2.0, "rho_mu": 2.0},
    "privacy": {"epsilon": 3.0, "delta": 1e-4},
}
"""The embedded example, as differences from the defaults."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        TacitError: The file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except IsADirectoryError:
        inside = path / "config.toml"
        hint = f"; its config is {inside}" if inside.exists() else ""
        raise TacitError(f"{path} is a folder, not a config file{hint}") from None
    except OSError as error:
        raise TacitError(f"cannot read the config {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also a number with thousands of digits, or deep nesting
        raise TacitError(f"{path} is not valid TOML: {error}") from None


def apply_setting(data: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """Return `data` with the setting "a.b=value"; without a value, the key is removed.

    A value that is not TOML is taken as a string. A new `name` for a section removes the section's other keys, which
    are parameters of the former part.
    """
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not equals or not key:
        raise TacitError(f'--set expects key=value, such as rounds=100 or algorithm.lr=0.1, got "{setting}"')
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    head, dot, tail = key.partition(".")
    if head in PART_SECTIONS and not dot and isinstance(value, str):
        dot, tail = ".", "name"
    if not dot:
        return _with_key(data, head, value)
    section = data.get(head, Config().as_dict().get(head, {}))
    if isinstance(section, str):
        section = {"name": section}
    if not isinstance(section, Mapping):
        raise TacitError(f'--set {setting}: "{head}" is not a section')
    if head in PART_SECTIONS and tail == "name" and section.get("name") != value:
        section = {"nodes": section["nodes"]} if "nodes" in section else {}
    return {**data, head: _with_key(section, tail, value)}


def _with_key(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    others = {name: old for name, old in table.items() if name != key}
    return others if value == "" else {**others, key: value}


def validate_section(section: type[M], data: Mapping[str, Any], where: str) -> M:
    """Return `data` as a `section`; `where` names the data in errors.

    Raises:
        TacitError: About the first key or value that is not accepted.
    """
    try:
        return section.model_validate(data)
    except ValidationError as error:
        raise _first_error(error, where, section) from None


def _first_error(error: ValidationError, where: str, fields: type[BaseModel]) -> TacitError:
    errors = error.errors()
    # A misspelt key is also reported as a missing one: the unknown key is the better message.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        within = [part for part in first["loc"][:-1] if isinstance(part, str)]  # without indices into lists
        for part in within:
            kind: Any = fields.model_fields[part].annotation
            fields = (get_args(kind) or (kind,))[0]
        section = f" [{'.'.join(within)}] in" if within else ""
        return unknown(f"key of{section} {where}", path[-1], fields.model_fields)
    if first["type"] == "model_type":
        return TacitError(f"{where}: {path[0]} = {first['input']!r} should be a section of keys and values")
    return invalid(where, error)
