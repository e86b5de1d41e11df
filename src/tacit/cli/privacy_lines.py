"""The short privacy statement that commands print at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.privacy import Privacy, rounded_up

if TYPE_CHECKING:
    from tacit.runs import ModelPrivacy

_MODELS_NOT_COVERED = "; the models and results measured on them are not covered"
_RELATIONS = {"add-remove": "add or remove one", "replace-one": "replace one"}


def privacy_line(privacy: Privacy) -> str:
    """Return ε, δ, unit and adversary in one line.

    >>> privacy_line(Privacy(guaranteed=2.9931, claimed=None, delta=1e-4))
    'Guaranteed ε = 2.994, δ = 0.0001 per record (add or remove one), against an eavesdropper on every link'
    """
    if privacy.guaranteed is None:
        return f"No privacy is guaranteed: {privacy.reason}"
    relation = "replace all its data" if privacy.unit == "node" else _RELATIONS[privacy.relation]
    return (
        f"{privacy.label} ε = {rounded_up(privacy.guaranteed)}, δ = {privacy.delta:g} per {privacy.unit} ({relation}), "
        f"against {privacy.adversary}{_MODELS_NOT_COVERED if privacy.covers_models is False else ''}"
    )


def simulation_line(seed: int) -> str:
    """Return the warning that the noise is public."""
    return f"SIMULATION: the noise is derived from seed {seed}, so this run protects nobody."


def model_privacy_line(privacy: ModelPrivacy) -> str:
    """Return the ε that covers a model, or why none does, in one line."""
    if not privacy.covered:
        return f"No ε covers this model: {privacy.reason}"
    line = privacy_line(privacy.as_privacy())
    return line if privacy.protects == "all nodes" else f"{line}, for the records of this site"
