"""The sections of a config, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from tacit.graphs import graphs
from tacit.runs.shares import Shares
from tacit.tasks import Weighting

PYTHON_OBJECT_PREFIX = "python: "  # starts the name of a part that was given as an object
AUTO = "auto"  # the task that fits the targets of the data


class ConfigSection(BaseModel):
    """A section of a config. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NamedPart(BaseModel):
    """A section that names a registered part; its other keys are the parameters, which the registry checks."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(description="a name that `tacit list` shows, or your own: path/to/file.py:Name")

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


PositiveEpsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class PrivacyTarget(ConfigSection):
    """The privacy to reach: noise is calibrated for `epsilon`, and a release that would exceed `budget` is refused.

    Without `budget`, a guaranteed `epsilon` is also the budget. `population_budget` is for all runs on a `population`.
    `ranges_epsilon` is the part of `epsilon` for the release of private ranges of columns, by default a tenth of it.
    `shares` divides the privacy between statistics that prepare the records and the gradients (docs/statistics.md).
    With paired noise, `epsilon` holds against an eavesdropper who colludes with any `colluders` nodes.
    With `correlation = "time"`, the noise of a step is partly taken back by later ones (docs/correlated-noise.md).
    """

    epsilon: PositiveEpsilon = Field(default=None, description="the ε for which the noise is calibrated")
    delta: float = Field(default=1e-5, gt=0, lt=1, description="the δ of all guarantees")
    calibration: Literal["guaranteed", "paper"] = Field(
        default="guaranteed", description="guaranteed, or paper: the noise with which the paper claims this ε"
    )
    budget: PositiveEpsilon = Field(default=None, description="refuse releases beyond this ε; default: epsilon")
    population: str | None = Field(
        default=None, description="with secret noise: name of the population of the records", examples=["ward-7"]
    )
    population_budget: PositiveEpsilon = Field(
        default=None, description="with secret noise: limit of ε of all runs on the population", examples=[10.0]
    )
    ranges_epsilon: PositiveEpsilon = Field(
        default=None, description="the part of epsilon for private ranges of columns", examples=[0.3]
    )
    shares: Shares | None = Field(
        default=None,
        description="shares of μ² for statistics before round 0 (ranges, mean, gram) and for gradients; their sum is 1",
        examples=[{"mean": 0.03, "gram": 0.25, "gradients": 0.72}],
    )
    noise: Literal["independent", "paired"] = Field(
        default="independent", description="independent, or paired: noise that cancels between nodes that share a key"
    )
    colluders: int | None = Field(
        default=None, ge=0, description="paired noise: nodes that may collude; default: a quarter of all", examples=[5]
    )
    ratio: float | None = Field(
        default=None, gt=0, description="paired noise: variance of a pair ÷ that of a node; default: 3", examples=[3.0]
    )
    keys: str | None = Field(
        default=None,
        description="paired noise: which nodes share keys: complete, regular, graph or a file with two nodes per line; "
        "default: complete up to 64 nodes, else regular",
        examples=["complete"],
    )
    correlation: Literal["none", "time"] = Field(
        default="none", description="of the noise: none, or time, which needs cyclic batches"
    )
    bandwidth: int | None = Field(
        default=None, ge=2, description="steps that correlated noise depends on; default: an epoch", examples=[32]
    )

    @model_validator(mode="after")
    def _keys_of_paired_noise(self) -> PrivacyTarget:
        given = [key for key in ("colluders", "ratio", "keys") if getattr(self, key) is not None]
        if given and self.noise != "paired":
            raise ValueError(f'{given[0]} has an effect only with noise = "paired"')
        return self


class CostModel(ConfigSection):
    """Seconds per gradient and per round of communication, and bytes per second that a node can send."""

    gradient_time: float = Field(default=0.0, ge=0, description="seconds per gradient")
    link_time: float = Field(default=0.0, ge=0, description="seconds per round of communication")
    bandwidth: float = Field(default=float("inf"), gt=0, description="bytes per second that a node can send")


class DropoutKeys(ConfigSection):
    """Keys of [graph] for every graph: the probabilities that a link or a node fails in a round."""

    drop_links: float = Field(default=0.0, ge=0, lt=1, description="probability that a link fails in a round")
    drop_nodes: float = Field(default=0.0, ge=0, lt=1, description="probability that a node fails in a round")
    drop_seed: int = Field(default=0, ge=0, description="seed of the failures")


class FeatureKeys(ConfigSection):
    """Keys of [data] for every data set: features, by which each record is replaced before training.

    No record shapes them: see docs/features.md.
    """

    features: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="features of each record: names that `tacit list` shows, or your own: path/to/file.py:function",
        examples=[["gradients", "scattering"]],
    )
    whiten: str = Field(default="none", description="whiten features with: none, shapes, or a public data set")
    rank: int | None = Field(
        default=None, ge=1, description="directions that whitening keeps, at most; default: all", examples=[700]
    )

    @model_validator(mode="after")
    def _whiten_features(self) -> FeatureKeys:
        if self.features is None and (self.whiten != "none" or self.rank is not None):
            raise ValueError("whiten and rank have an effect only with data.features")
        return self


class RegularisationKeys(ConfigSection):
    """Keys of [model] for every model: weight_decay · ‖parameters‖²/2 is added to the loss; no record changes it."""

    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="weight of ‖parameters‖²/2")


class SharingKeys(ConfigSection):
    """Keys of [algorithm] for methods with partial sharing: which parameters are shared, and how the others are
    trained."""

    share: tuple[str, ...] | None = Field(default=None, description="patterns of the shared parameters")
    local: Literal["private", "exact"] = Field(default="private", description="how the other parameters are trained")


class MixingKeys(ConfigSection):
    """Keys of [algorithm] for mixing methods: what they do with released values beside their update."""

    closing_rounds: int = Field(default=0, ge=0, description="mixings without gradients after the last round")
    mixings: int = Field(default=1, ge=1, description="mixings per round")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="heavy-ball momentum β of the steps")
    weights: Weighting = Field(default="equal", description="weights of the nodes: equal, or by their records")
    averaging: Literal["none", "ema", "polyak"] = Field(
        default="none", description="average of a node's own models: none, ema or polyak"
    )
    averaging_decay: float = Field(default=0.9, gt=0, lt=1, description="ema: factor of a weight per round")
    averaging_start: float = Field(default=0.5, ge=0, lt=1, description="polyak: share of rounds before it begins")


ALGORITHM_KEYS = (*SharingKeys.model_fields, *MixingKeys.model_fields)
"""The keys of [algorithm] that belong to no single method."""

DEFAULT_PARTS = {
    "data": NamedPart(name="digits"),
    "sharding": NamedPart(name="iid"),
    "task": NamedPart(name=AUTO),
    "model": NamedPart(name="logistic"),
    "graph": NamedPart.model_validate({"name": "one-peer-exponential", "nodes": 10}),
    "algorithm": NamedPart(name="dyn-d2p"),
}
"""The parts of a run whose config has none."""
PART_SECTIONS = tuple(DEFAULT_PARTS)


def with_part_defaults(kind: str, section: Any, *, load_files: bool = False) -> Any:
    """Return the section of a part with the default name and parameters of what it leaves out.

    Default parameters belong to the default name, except for the number of nodes, which holds for every graph that
    requires it. A graph in a user's own file is loaded only with `load_files`: checking a config must not run code.

    >>> with_part_defaults("graph", {"nodes": 5})
    {'name': 'one-peer-exponential', 'nodes': 5}
    >>> with_part_defaults("graph", "ring")
    {'name': 'ring', 'nodes': 10}
    """
    section = {"name": section} if isinstance(section, str) else section
    if not isinstance(section, Mapping):
        return section
    default = DEFAULT_PARTS[kind]
    name = section.get("name", default.name)
    kept = default.parameters
    if name != default.name:
        known = kind == "graph" and (load_files or name in graphs)
        options = graphs.options(name).values() if known else ()
        required = [option.name for option in options if option.default is option.empty]
        kept = {key: value for key, value in kept.items() if key in required}
    return {"name": name, **kept, **section}
