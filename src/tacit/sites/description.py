"""What the sites of a network have agreed on, in one form, with a digest that is the network's name."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, ValidationError, field_validator

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graph_learning import graph_methods
from tacit.graphs import Graph, graphs
from tacit.registry import Registry, invalid
from tacit.runs.config import Batch, Choice, Config, PrivacyTarget, Section
from tacit.sites.certificates import check_site_name
from tacit.sites.text import printable
from tacit.tasks import Model, models
from tacit.tasks.data.checks import Label

_SCHEDULE = 32  # rounds of a graph that never repeats by which two are told apart
_PATH = re.compile(r"(?P<path>.*\.py)(?P<rest>:\w+)")
_DIGESTS = ("links", "parameters")  # they differ for a reason, which tells more

T = TypeVar("T", bound=Hashable)
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _site(name: str) -> str:
    try:
        return check_site_name(name)
    except TacitError as error:
        raise ValueError(str(error)) from None


SiteName = Annotated[str, AfterValidator(_site)]


def first_duplicate(values: Iterable[T]) -> T | None:
    """One that is there more than once."""
    value, times = Counter(values).most_common(1)[0]
    return value if times > 1 else None


class NetworkDescription(Section):
    """The agreed part of a run: what must be the same at every site, and nothing that is a site's own.

    Sites are numbered as they are listed. `seed` is that of public randomness, such as the parameters all start from.
    The noise has no seed here: its key is each site's secret.
    Where a graph is learned there are `vertices`, but no model and no batches.
    """

    format: Literal[1] = 1
    name: str | None = None
    sites: tuple[SiteName, ...] = Field(min_length=1, max_length=10_000)
    rounds: int = Field(ge=1)
    seed: int = Field(ge=0, lt=2**63)
    graph: Choice
    links: Digest
    algorithm: Choice
    model: Choice | None = None
    parameters: Digest | None = None
    inputs: tuple[int, ...] | None = None
    classes: int | None = None
    labels: tuple[Label, ...] | None = None
    vertices: int | None = None
    batch: Batch | None = None
    privacy: PrivacyTarget
    evaluate_every: int | None = Field(default=None, ge=1)
    measure: tuple[str, ...] = ()

    @field_validator("sites")
    @classmethod
    def _once(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        if twice := first_duplicate(sites):
            raise ValueError(f"the site {twice} is there twice")
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
        vertices: int | None = None,
        name: str | None = None,
    ) -> NetworkDescription:
        """What a config says, with the graph and the model that were built from it, and the form of the data."""
        trained = model is not None
        if len(sites) != graph.nodes:
            raise TacitError(f"there are {len(sites)} sites for a graph of {graph.nodes} nodes: they must be as many")
        return cls.parse(
            _canonical(
                {
                    "name": name,
                    "sites": list(sites),
                    "rounds": config.rounds,
                    "seed": config.seed,
                    "graph": _whole(graphs, config.graph),
                    "links": _links(graph),
                    "algorithm": _whole(algorithms if trained else graph_methods, config.algorithm),
                    "model": _whole(models, config.model) if trained else None,
                    "parameters": None if model is None else _parameters(model),
                    "inputs": inputs,
                    "classes": classes,
                    "labels": labels,
                    "vertices": vertices,
                    "batch": config.batch.model_dump(exclude_none=True) if trained else None,
                    "privacy": config.privacy.model_dump(exclude_none=True),
                    # A measurement is a message too: all must expect it.
                    "evaluate_every": config.evaluate_every,
                    "measure": list(config.measure),
                }
            ),
            "the network",
        )

    @classmethod
    def parse(cls, text: str, where: str = "the description") -> NetworkDescription:
        """A description from its text, which may be anything."""
        try:
            made = cls.model_validate_json(text, strict=True)
            _canonical(made.model_dump(mode="json"))  # numbers that cannot be agreed on are refused now
            return made
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "json_invalid":
                raise TacitError(f"{where} is not valid JSON") from None
            raise TacitError(printable(str(invalid(where, error)), 300)) from None

    @property
    def text(self) -> str:
        """Canonical JSON: sorted keys, no spaces, ASCII. Equal descriptions have equal texts."""
        return _canonical(self.model_dump(mode="json", exclude_none=True))

    @property
    def digest(self) -> str:
        """The digest of the text, which names the network in every message."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def first_difference(mine: NetworkDescription, theirs: NetworkDescription) -> str | None:
    """The first key in which two descriptions differ, as a sentence; None if there is none."""
    here, there = dict(_flat("", json.loads(mine.text))), dict(_flat("", json.loads(theirs.text)))
    for key in sorted(here | there, key=lambda key: (key in _DIGESTS, key)):
        if key not in here or key not in there or here[key] != there[key]:
            return f"{printable(key)} is {_told(here, key)} here and {_told(there, key)} there"
    return None


def _told(values: dict[str, Any], key: str) -> str:
    return printable(json.dumps(values[key], ensure_ascii=False)) if key in values else "not given"


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves of nested tables and lists by dotted keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield key, value
    for name, part in inner or ():
        yield from _flat(f"{key}.{name}" if key else str(name), part)


def _whole(registry: Registry[Any], choice: Choice) -> dict[str, Any]:
    """A choice with all its parameters, those too that are left at their defaults: another version may have others.

    Sites keep files where they like, so a file is told by its name and contents.
    """
    name, given = choice.name, choice.parameters
    if found := _PATH.fullmatch(name):
        return {"name": _file(found["path"]) + found["rest"], **given}
    taken = registry.options(name) if name in registry else {}
    defaults = {key: parameter.default for key, parameter in taken.items()}
    plain = {key: value for key, value in defaults.items() if isinstance(value, int | float | str | tuple | list)}
    files = {"path": _file(given["path"])} if "path" in given else {}
    return {**plain, **given, **files, "name": name}


def _file(path: str) -> str:
    try:
        contents = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise TacitError(f"cannot read {path}: {error.strerror}") from None
    return f"{Path(path).name} ({contents[:16]})"


def _links(graph: Graph) -> str:
    """A digest of the weights of every round, or of the first ones where rounds do not repeat."""
    digest = hashlib.sha256()
    for t in range(graph.period or _SCHEDULE):
        weights = graph.at(t).sorted_indices()
        for part in (weights.indptr, weights.indices):
            digest.update(part.astype("<i8").tobytes())
        digest.update((np.round(weights.data, 12) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def _parameters(model: Model) -> str:
    """A digest of the parameters that all sites start from, with their names, shapes and which are shared."""
    layout = model.layout
    facts = [layout.names, layout.shapes, layout.shared, layout.bounded, model.weight_decay]
    digest = hashlib.sha256(json.dumps(facts).encode())
    digest.update(model.initial().double().numpy().astype("<f8").tobytes())
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise TacitError("sites can agree on finite numbers, strings, lists and tables only") from None


def _plain(value: Any) -> Any:
    """2.0 as 2: both are written in configs, and mean the same."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
