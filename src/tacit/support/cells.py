"""One answer of the support matrix, and what it can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["proven", "no bound known", "not applicable", "supported", "refused"]
"""For privacy: a guaranteed ε is proven; there is noise but no bound is known; or there is no noise, or the combination
is refused. For runtimes: supported or refused."""

AMPLIFIED, NOT_AMPLIFIED = "with amplification by sampling", "without amplification by sampling"
OWN_BOUND, EAVESDROPPERS = "a bound of its own", "the eavesdropper's bound"


@dataclass(frozen=True)
class Answer:
    """A status, and the reason for it.

    Attributes:
        status: The status.
        reason: Why, in one clause; for a proven ε, on which bound it rests.
    """

    status: Status
    reason: str = ""

    @property
    def is_weaker(self) -> bool:
        """Whether an ε is proven, but without amplification by sampling, or only by the eavesdropper's bound."""
        return self.status == "proven" and self.reason in (NOT_AMPLIFIED, EAVESDROPPERS)

    def as_dict(self) -> dict[str, str]:
        """A JSON object."""
        return {"status": self.status, "reason": self.reason}


@dataclass(frozen=True)
class Method:
    """A registered method with some of its settings.

    Attributes:
        name: The registered name.
        settings: Its settings; other parameters have their defaults.
        changed: The keys of those settings that distinguish it from the method as it is usually used.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name with its changed settings, such as "dp-norm, asynchronous = true"."""
        changed = [f"{key} = {_written(value)}" for key, value in self.settings if key in self.changed]
        return ", ".join([self.name, *changed])

    def changing(self, **settings: Any) -> Method:
        """Return the method with other settings."""
        return Method(self.name, tuple({**dict(self.settings), **settings}.items()), (*self.changed, *settings))

    def __hash__(self) -> int:
        return hash((self.name, repr(self.settings)))  # a setting can be a list


@dataclass(frozen=True)
class MethodSupport:
    """What is known about a method.

    Attributes:
        method: The method.
        noise: The mechanism of its releases: gaussian, laplace, unproven (noise without a proof) or exact (none).
        unit: What its guarantee protects: a record, or all data of a node.
        samplings: By sampling and relation, such as ("poisson", "add-remove"): whether an ε is proven against an
            eavesdropper.
        adversaries: By adversary, for the first sampling with a proven ε.
        runtimes: By runtime: whether the method runs there.
        correlations: By kind of correlated noise ("paired", "correlated in time"): whether the method can have it.
    """

    method: Method
    noise: str
    unit: str
    samplings: dict[tuple[str, str], Answer]
    adversaries: dict[str, Answer]
    runtimes: dict[str, Answer]
    correlations: dict[str, Answer] = field(default_factory=dict)

    @property
    def profile(self) -> tuple[Any, ...]:
        """Everything except the method: methods with equal profiles have the same support."""
        return self.noise, self.unit, self.samplings, self.adversaries, self.runtimes, self.correlations

    def as_dict(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "method": self.method.name,
            "settings": {
                key: list(value) if isinstance(value, tuple) else value for key, value in self.method.settings
            },
            "noise": self.noise,
            "unit": self.unit,
            "samplings": [
                {"sampling": sampling, "relation": relation, **answer.as_dict()}
                for (sampling, relation), answer in self.samplings.items()
            ],
            "adversaries": {title: answer.as_dict() for title, answer in self.adversaries.items()},
            "runtimes": {title: answer.as_dict() for title, answer in self.runtimes.items()},
            "correlations": {title: answer.as_dict() for title, answer in self.correlations.items()},
        }


def _written(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
