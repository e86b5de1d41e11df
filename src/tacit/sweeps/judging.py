"""On which records the settings of a sweep are judged, and on which the best one is reported."""

from __future__ import annotations

import filecmp
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.errors import TacitError, unknown
from tacit.privacy import RecordsLedger, Relation
from tacit.runs import Config, NamedPart, batch_relation, build_data
from tacit.tasks import Dataset, datasets

JudgeMode = Literal["held-out", "test", "public"]
JUDGE_MODES: tuple[JudgeMode, ...] = ("held-out", "test", "public")
_NOT_PROTECTED = "Test records are not protected by ε."


class JudgedRecords(NamedTuple):
    """Two parts of records with their targets: the settings are judged on one, the best is reported on the other."""

    judged: tuple[Tensor, Tensor]
    reported: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Judge:
    """How the settings of a sweep are judged.

    Attributes:
        mode: "held-out": on half of the test records, chosen at random with a fixed seed; the best is reported on the
            other half. "test": on all test records, on which the best is also reported. "public": on public records;
            the best is reported on the test records.
        public: The public data: the name of a data set, or a file in the form of the config's data.

    Privacy:
        No mode uses training records: a choice by their metrics would need a release of its own.
    """

    mode: JudgeMode = "held-out"
    public: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in JUDGE_MODES:
            raise unknown("way to judge", self.mode, JUDGE_MODES)
        if self.mode == "public" and self.public is None:
            raise TacitError("judge = public needs public, the name of a data set or a file of public records")
        if self.mode != "public" and self.public is not None:
            raise TacitError(f"public is for judge = public, got judge = {self.mode}")

    def records(self, config: Config) -> JudgedRecords:
        """Return the records of this config.

        Raises:
            TacitError: There are no test records, or the public ones do not fit.
        """
        data = load_data(config)
        if data.private is not None:  # each run would scale the records by a range of its own
            raise TacitError('a sweep needs declared ranges: replace range = "private" by range = [low, high]')
        test = data.test_x, data.test_y
        if self.public is not None:
            return JudgedRecords(_public_records(self.public, config, data), test)
        least = 2 if self.mode == "held-out" else 1
        if len(data.test_y) < least:
            raise TacitError(
                f"judge = {self.mode} needs {least} or more test records, data set {data.name} has {len(data.test_y)}: "
                "give test records, or use judge = public"
            )
        if self.mode == "test":
            return JudgedRecords(test, test)
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(data.test_y)))
        one, other = order[: len(order) // 2], order[len(order) // 2 :]
        return JudgedRecords((data.test_x[one], data.test_y[one]), (data.test_x[other], data.test_y[other]))

    def identity(self, config: Config) -> dict[str, Any]:
        """Return what identifies the records of a cell. With secret noise, their digest is keyed."""
        data, (judged, reported) = load_data(config), self.records(config)
        parts = [each.numpy() for each in (data.x, data.y, *judged, *reported)]
        if config.noise == "secret":
            return {"mode": self.mode, "records": RecordsLedger().digest(parts)}
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            digest.update(f" {part.shape} {part.dtype} ".encode())
            digest.update(np.ascontiguousarray(part).data)
        return {"mode": self.mode, "records": digest.hexdigest()}

    def sentences(self, config: Config) -> str:
        """Return what was done, in words."""
        records = self.records(config)
        judged, reported = len(records.judged[1]), len(records.reported[1])
        if self.mode == "test":
            return (
                f"Settings were judged on all {judged:,} test records. The result of the best setting is optimistic: "
                f"the same records chose it. {_NOT_PROTECTED}"
            )
        if self.mode == "public":
            return (
                f"Settings were judged on {judged:,} records of {self.public}, which were declared public. The best "
                f"setting was measured on the {reported:,} test records, which did not choose it. {_NOT_PROTECTED}"
            )
        return (
            f"Settings were judged on {judged:,} of the {judged + reported:,} test records, chosen at random. The best "
            f"setting was measured on the other {reported:,}, which did not choose it. {_NOT_PROTECTED}"
        )


def load_data(config: Config) -> Dataset:
    """Return the data of a config, loaded once per sweep and process."""
    return _loaded(config.data.model_dump_json(), batch_relation(config.batch))


def forget_data() -> None:
    """Load data again on next use: a file may have changed."""
    _loaded.cache_clear()


@lru_cache(maxsize=4)
def _loaded(part: str, relation: Relation) -> Dataset:
    return build_data(NamedPart.model_validate_json(part), relation)


def _public_records(public: str, config: Config, data: Dataset) -> tuple[Tensor, Tensor]:
    """All records of the public data set."""
    part = public_part(public, config)
    found = _loaded(part.model_dump_json(), batch_relation(config.batch))
    if found.inputs != data.inputs or found.target != data.target:
        raise TacitError(f"The public data do not fit: {public} is {found!r}, the data of the config are {data!r}")
    return torch.cat([found.x, found.test_x]), torch.cat([found.y, found.test_y])


def public_part(public: str, config: Config) -> NamedPart:
    """Return the section [data] of public records: a data set, or a file in the form of the config's data."""
    own = config.data
    options = datasets.options(own.name)
    if public in datasets:
        if public == own.name and "path" not in options:
            raise TacitError(f"public = {public} names the private data of the config: give other records")
        same = {key: own.parameters[key] for key in ("normalise",) if key in own.parameters}
        return NamedPart.model_validate({"name": public, **same})
    if not Path(public).exists():
        raise unknown("public data set or file", public, datasets)
    if "path" not in options:
        raise TacitError(f"public = {public} is a file, but data {own.name} is not read from a file: name a data set")
    private = [Path(own.parameters[key]) for key in ("path", "test_path") if key in own.parameters]
    if any(file.is_file() and filecmp.cmp(public, file, shallow=False) for file in private):
        raise TacitError(f"public = {public} is the file of the private records, or a copy of it: give other records")
    kept = {key: value for key, value in own.parameters.items() if key not in ("path", "test_path")}
    none_held_out = {"test": 0.0} if "test" in options else {}
    return NamedPart.model_validate({**kept, **none_held_out, "name": own.name, "path": public})
