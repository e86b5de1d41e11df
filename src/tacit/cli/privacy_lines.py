"""The short privacy statement that commands print at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.runs import ModelPrivacy

CONFIDENTIAL_METRICS = "CONFIDENTIAL: the metrics are exact numbers of the test records, which ε does not protect."


def simulation_line(seed: int) -> str:
    """Return the warning that the noise is public."""
    return f"SIMULATION: the noise is derived from seed {seed}, so this run protects nobody."


def model_privacy_line(privacy: ModelPrivacy) -> str:
    """Return the ε that covers a model, or why none does, in one line."""
    if not privacy.covered:
        return f"No ε covers this model: {privacy.reason}"
    line = privacy.as_privacy().line
    return line if privacy.protects == "all nodes" else f"{line}, for the records of this site"
