"""The config of a run: a TOML file or a dict, checked completely before anything happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from tacit.device import DEVICE_PATTERN
from tacit.errors import unknown
from tacit.runs.config_batch import ALL_RECORDS, Batch
from tacit.runs.config_file import apply_settings, read_toml, validate_section
from tacit.runs.config_sections import (
    DEFAULT_PARTS,
    PART_SECTIONS,
    ConfigSection,
    CostModel,
    NamedPart,
    PrivacyTarget,
    with_part_defaults,
)
from tacit.runs.metrics import optional_metrics
from tacit.runs.storage import CONFIG_FILE, LEDGER_FILE
from tacit.tasks import Precision


class Config(ConfigSection):
    """The config of a complete run. A section that sets some keys keeps the defaults of the others."""

    name: str | None = Field(default=None, pattern=r"^[\w\-. ]*\w$", description="name of the run", examples=["my-run"])
    seed: int = Field(default=0, ge=0, lt=2**63, description="the same seed gives the same run")
    noise: Literal["simulated", "secret"] = Field(
        default="simulated", description="simulated (protects nobody) or secret: docs/several-runs.md"
    )
    rounds: int = Field(default=200, ge=1, description="number of rounds")
    evaluate_every: int | None = Field(default=None, ge=1, description="rounds between two evaluations")
    device: str = Field(
        default="cpu",
        pattern=DEVICE_PATTERN,
        description="where the run computes: cpu, cuda, cuda:1, mps or auto",
        examples=["cuda"],
    )
    precision: Precision = Field(
        default="float32", description="of forward and backward passes: float32 or bf16 (docs/devices.md)"
    )
    recipe: str | None = Field(
        default=None,
        pattern=r"^[\w\-.]+$",
        description='with algorithm = "auto": the recipe to use; in a saved config: the recipe that was used',
        examples=["images-2"],
    )
    data: NamedPart = Field(default=DEFAULT_PARTS["data"], description="the records")
    sharding: NamedPart = Field(default=DEFAULT_PARTS["sharding"], description="which node has which records")
    task: NamedPart = Field(default=DEFAULT_PARTS["task"], description="what the model learns; auto fits the data")
    model: NamedPart = Field(default=DEFAULT_PARTS["model"], description="the model of every node")
    graph: NamedPart = Field(default=DEFAULT_PARTS["graph"], description="which nodes send messages to which")
    algorithm: NamedPart = Field(
        default=DEFAULT_PARTS["algorithm"], description="the method; its other keys are parameters"
    )
    batch: Batch = Field(default=Batch(), description="the records of one step")
    privacy: PrivacyTarget = Field(default=PrivacyTarget(), description="the privacy to guarantee")
    network: CostModel = Field(default=CostModel(), description="the simulated clock of comparisons")
    measure: tuple[str, ...] = Field(default=(), description="optional metrics, such as node_accuracy")

    @field_validator(*PART_SECTIONS, mode="before")
    @classmethod
    def _keep_part_defaults(cls, section: Any, info: ValidationInfo) -> Any:
        assert info.field_name is not None
        return with_part_defaults(info.field_name, section)

    @model_serializer(mode="wrap")
    def _leave_out_unused(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Options that have no effect are left out, so that a run of an earlier version has the same config."""
        table: dict[str, Any] = write(self)
        unused = {"device": "cpu", "precision": "float32"}
        return {key: value for key, value in table.items() if key not in unused or value != unused[key]}

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

        >>> Config.parse({"graph": {"nodes": 5}, "batch": {"sampling": "permutation"}}).batch.size
        32
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
        """Read the file at `path`, or the embedded example without one, and apply `key=value` settings.

        Their order has no influence, unless two of them set the same key: then the last one holds.
        """
        data: dict[str, Any] = EXAMPLE_CONFIG if path is None else read_toml(path)
        if path is not None and path.name == CONFIG_FILE and (path.parent / LEDGER_FILE).exists():
            data = saved_settings(data)
        return cls.parse(apply_settings(data, settings), "the config" if path is None else str(path))

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


def saved_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config that a run has saved, whichever version wrote it.

    A saved config has all values. Earlier versions left `batch.size` out if every step uses all records.
    """
    batch = data.get("batch")
    complete = {"batch": {"size": ALL_RECORDS, **batch}} if isinstance(batch, Mapping) else {}
    return {**data, **complete}
