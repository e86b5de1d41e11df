"""The facts about a run in its ledger, read and checked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import TacitError
from tacit.privacy import Ledger
from tacit.registry import invalid


class _Recorded(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class RecordedStart(_Recorded):
    """A start of the run, after `round` rounds: its time and the versions of the software."""

    time: str
    round: int = Field(ge=0)
    tacit: str
    torch: str
    python: str


class RecordedExtension(_Recorded):
    """An extension of the run by `rounds` rounds, made after `round` rounds."""

    time: str
    round: int = Field(ge=0)
    rounds: int = Field(ge=1)


class RecordedFacts(_Recorded):
    """What a ledger records about its run; see `tacit.runs.run_facts` for how it is recorded.

    Attributes:
        config: The resolved config.
        seed: The seed of simulated noise; None for secret noise.
        nodes: The first hosted node and the number of hosted nodes.
        inputs: Digests of records, shards and graph.
        exact_values_stay_local: Whether the method declares that values used inside a node never influence messages.
        run: The id of a run with secret noise and a stored key; None for other runs.
        digest_check: The keyed digest of nothing, to recognise the key of the other digests of such a run.
        ranges: The released ranges of private columns, in their own units.
        prepared: The ids of the vectors that centre and whiten records.
        ended: When the run ended; None while it has not. The attributes after it are recorded at the end, too.
        models_released: Whether the guarantee covers the models; their files then have digests that need no key.
        files: Digests of the files of the run.
    """

    format: Literal[1]
    config: dict[str, Any]
    config_digest: str
    delta: float
    simulated: bool
    seed: int | None
    nodes: list[int] = Field(min_length=2, max_length=2)
    processes: int = Field(ge=1)
    inputs: dict[str, str]
    exact_values_stay_local: bool
    starts: list[RecordedStart] = Field(min_length=1)
    extensions: list[RecordedExtension]
    run: str | None = None
    digest_check: str | None = None
    ranges: dict[str, list[float]] = {}
    prepared: dict[str, str] = {}
    ended: str | None = None
    rounds: int | None = None
    stopped: str | None = None
    releases: int | None = None
    releases_digest: str | None = None
    models_released: bool = False
    files: dict[str, str] = {}

    @classmethod
    def read(cls, ledger: Ledger, where: str) -> RecordedFacts:
        """Read the facts of a ledger; `where` names it in errors.

        Raises:
            TacitError: The ledger has none, or they are not valid.
        """
        facts = ledger.facts.read()
        if not facts:
            raise TacitError(f"{where} does not record to which run it belongs")
        try:
            return cls.model_validate(facts)
        except ValidationError as error:
            if error.errors()[0]["loc"] == ("format",):
                raise TacitError(f"{where} was written by another version of Tacit, which can use it") from None
            raise TacitError(str(invalid(where, error))) from None

    @property
    def all_rounds(self) -> int | None:
        """The rounds of the config and of all extensions; None if the config has none."""
        rounds = self.config.get("rounds")
        return rounds + sum(each.rounds for each in self.extensions) if isinstance(rounds, int) else None
