"""The privacy of a trained model, as its file states it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tacit.privacy import Privacy

_NOT_COVERED = "the models contain values without noise, so the guarantee of the run does not cover them"


class Described(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelPrivacy(Described):
    """The privacy of the parameters in the file. An ε that does not cover them is not stated.

    Attributes:
        covered: Whether the guarantee of the run covers the model.
        reason: Why it does not, if so.
        protects: Whose records the ε is for.
        guaranteed: The guaranteed ε. The other attributes are those of `Privacy`.
    """

    covered: bool
    reason: str | None
    protects: Literal["all nodes", "this site"]
    guaranteed: float | None
    claimed: float | None
    claimed_for: Literal["run", "round"]
    delta: float
    unit: str
    relation: str
    adversary: str
    simulated: bool
    assumes: str | None
    note: str | None

    @classmethod
    def of(cls, privacy: Privacy, *, is_site: bool = False) -> ModelPrivacy:
        """Return what a run's privacy statement means for its models."""
        covered = covers_models(privacy)
        return cls(
            covered=covered,
            reason=None if covered else privacy.reason or _NOT_COVERED,
            protects="this site" if is_site else "all nodes",
            guaranteed=privacy.guaranteed if covered else None,
            claimed=privacy.claimed if covered else None,
            note=privacy.note if covered else None,
            **{key: getattr(privacy, key) for key in ("claimed_for", "delta", "unit", "relation", "adversary")},
            simulated=privacy.simulated,
            assumes=privacy.assumes,
        )

    def as_privacy(self) -> Privacy:
        """Return the statement for the model alone."""
        stated = self.model_dump(exclude={"covered", "protects"})
        return Privacy(**stated, covers_models=self.covered)


def covers_models(privacy: Privacy) -> bool:
    """Whether a guarantee exists and covers the models."""
    return privacy.guaranteed is not None and privacy.covers_models is True
