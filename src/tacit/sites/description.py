"""The description that sites compare before they exchange values: everything that must be equal at all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graph_learning import graph_methods
from tacit.graphs import Graph, graphs, weights_digest
from tacit.registry import invalid
from tacit.runs import KEY_GRAPHS, Batch, Config, ConfigSection, NamedPart, PrivacyTarget
from tacit.sites.canonical import canonical_json, parameters_digest, with_defaults
from tacit.sites.names import PublicKey, SiteName, first_duplicate
from tacit.sites.text import printable
from tacit.tasks import Label, Model, models

_DIGEST_KEYS = ("links", "parameters", "pairs.plan")  # compared last: another key usually explains why they differ
_MAX_ERROR_LENGTH = 300

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PairDescription(ConfigSection):
    """What must be equal at every site for paired noise: its plan, the epoch, and the public keys of the sites.

    `plan` is the digest of `PairPlan`: which sites share keys, and how much noise each adds. Networks of which all
    noise is derived from a seed need no public keys.
    """

    epoch: int = Field(ge=1, lt=2**63)
    plan: Sha256
    public_keys: dict[SiteName, PublicKey]


class NetworkDescription(ConfigSection):
    """The settings that must be equal at every site, and nothing that is private to one.

    The order of `sites` gives their node ids. `seed` is used for public randomness only, such as the initial
    parameters; the key of the noise is each site's secret. `links` and `parameters` are digests of the mixing weights
    and of the initial model. Graph learning has `vertices`, but no model and no batches.
    """

    format: Literal[1] = 1
    name: str | None = None
    sites: tuple[SiteName, ...] = Field(min_length=1, max_length=10_000)
    records: tuple[int, ...] | None = None
    pairs: PairDescription | None = None
    rounds: int = Field(ge=1)
    seed: int = Field(ge=0, lt=2**63)
    graph: NamedPart
    links: Sha256
    algorithm: NamedPart
    model: NamedPart | None = None
    parameters: Sha256 | None = None
    inputs: tuple[int, ...] | None = None
    classes: int | None = None
    labels: tuple[Label, ...] | None = None
    columns: dict[str, Any] | None = None
    vertices: int | None = None
    features: Sha256 | None = None
    batch: Batch | None = None
    privacy: PrivacyTarget
    evaluate_every: int | None = Field(default=None, ge=1)
    measure: tuple[str, ...] = ()

    @field_validator("sites")
    @classmethod
    def _no_duplicates(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        if name := first_duplicate(sites):
            raise ValueError(f"two sites have the name {name}")
        return sites

    @classmethod
    def of(
        cls,
        config: Config,
        sites: Sequence[str],
        graph: Graph,
        model: Model | None = None,
        inputs: Sequence[int] | None = None,
        classes: int | None = None,
        *,
        labels: Sequence[Label] | None = None,
        columns: dict[str, Any] | None = None,
        vertices: int | None = None,
        name: str | None = None,
        records: Sequence[int] | None = None,
        pairs: PairDescription | None = None,
        features: str | None = None,
    ) -> NetworkDescription:
        """Describe a run: its config, the graph and the model built from it, and the format of the data.

        Without a model the run learns a graph on `vertices` vertices.
        """
        trained = model is not None
        if len(sites) != graph.nodes:
            raise TacitError(f"The graph has {graph.nodes} nodes for {len(sites)} sites: the numbers must be equal")
        table = {
            "name": name,
            "sites": list(sites),
            "records": records,
            "pairs": None if pairs is None else pairs.model_dump(),
            "rounds": config.rounds,
            "seed": config.seed,
            "graph": with_defaults(graphs, config.graph),
            "links": weights_digest(graph),
            "algorithm": with_defaults(algorithms if trained else graph_methods, config.algorithm),
            "model": with_defaults(models, config.model) if trained else None,
            "parameters": None if model is None else parameters_digest(model),
            "inputs": inputs,
            "classes": classes,
            "labels": labels,
            "columns": columns,
            "vertices": vertices,
            "features": features,
            "batch": config.batch.model_dump(exclude_none=True) if trained else None,
            "privacy": _privacy_table(config.privacy),
            "evaluate_every": config.evaluate_every,
            "measure": list(config.measure),
        }
        return cls.parse(canonical_json(table), "the network")

    @classmethod
    def parse(cls, text: str, where: str = "the description") -> NetworkDescription:
        """Read a description from JSON, which may come from anyone.

        Raises:
            TacitError: If it is not a valid description; the message is one printable line.
        """
        try:
            description = cls.model_validate_json(text, strict=True)
            canonical_json(description.model_dump(mode="json"))  # refuses values that have no canonical form
            return description
        except ValidationError as error:
            if error.errors()[0]["type"] == "json_invalid":
                raise TacitError(f"{where} is not valid JSON") from None
            raise TacitError(printable(str(invalid(where, error)), _MAX_ERROR_LENGTH)) from None

    @property
    def text(self) -> str:
        """Canonical JSON: sorted keys, no spaces, ASCII. Equal descriptions have equal texts."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))

    @property
    def digest(self) -> str:
        """SHA-256 of `text` in hexadecimal, which identifies the network in every message."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def _privacy_table(privacy: PrivacyTarget) -> dict[str, Any]:
    """Return the privacy target. Sites may store the file of the key graph elsewhere; the plan has its contents."""
    table = privacy.model_dump(exclude_none=True)
    return table if table.get("keys", KEY_GRAPHS[0]) in KEY_GRAPHS else {**table, "keys": "file"}


def first_difference(mine: NetworkDescription, theirs: NetworkDescription) -> str | None:
    """Return the first key in which two descriptions differ, with both values, or None if they are equal."""
    here, there = dict(_flattened("", json.loads(mine.text))), dict(_flattened("", json.loads(theirs.text)))
    for key in sorted(here | there, key=lambda key: (key in _DIGEST_KEYS, key)):
        if key not in here or key not in there or here[key] != there[key]:
            return f"{printable(key)} is {_value_of(here, key)} here and {_value_of(there, key)} there"
    return None


def _value_of(values: dict[str, Any], key: str) -> str:
    return printable(json.dumps(values[key], ensure_ascii=False)) if key in values else "not set"


def _flattened(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested tables and lists with their dotted keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield key, value
    for name, part in inner or ():
        yield from _flattened(f"{key}.{name}" if key else str(name), part)
