"""The short privacy statement that commands print at the end of a run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tacit.cli.output import print_warning

if TYPE_CHECKING:
    from tacit.runs import ModelPrivacy

CONFIDENTIAL_METRICS = "CONFIDENTIAL: the metrics are exact numbers of the test records, which ε does not protect."
_SIMULATION = re.compile(r"SIMULATION: [^.]*\.")  # the sentence among the notes of a statement


def warn_if_weak(epsilon: float | None, warned: float | None = None) -> None:
    """Print a warning about a large ε, unless there was one about the ε `warned` before."""
    from tacit.privacy import weak_protection

    text = weak_protection(epsilon or 0.0)
    if text is not None and weak_protection(warned or 0.0) is None:
        print_warning(text)


def simulation_line(seed: int) -> str:
    """Return the warning that the noise is public."""
    return f"SIMULATION: the noise is derived from seed {seed}, so this run protects nobody."


def model_privacy_lines(privacy: ModelPrivacy, *, verified: bool) -> list[str]:
    """Return the ε that covers a model, for which records it holds, and whether it is a simulation.

    Args:
        privacy: What the file of the model states.
        verified: Whether the run was verified. Otherwise the lines do not say that anything is guaranteed.
    """
    if not privacy.covered:
        return [f"No ε covers this model: {privacy.reason}"]
    statement = privacy.as_privacy()
    if verified:
        stated = statement.line
    else:
        stated = f"stated, not verified{' (simulated)' if privacy.simulated else ''}: {statement.terms}"
    whose = "its training records" if privacy.protects == "all nodes" else "the training records of this site"
    line = f"Privacy of the model, for {whose}: {stated}"
    return [line, *_SIMULATION.findall(privacy.note or "")]
