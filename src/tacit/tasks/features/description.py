"""What features consist of, and what shaped them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

VERSION = 1
"""Raised when a change of the code changes the values of built-in features."""


@dataclass(frozen=True)
class FeatureDescription:
    """The public facts about a feature map.

    Attributes:
        names: The names of the features, in the order of their values.
        whiten: With what they are whitened: "none", "shapes", or the name of a public data set.
        rank: The number of directions that whitening keeps; None: all.
        values: The number of values per record.
        inputs: The shape of a raw record.
        tokens: Whether raw records are integers.
        assumptions: What must be true for no record to have shaped the features; empty if it is proven.
        sources: Digests of what the names do not determine: files, weights, public records.
    """

    names: tuple[str, ...]
    whiten: str
    rank: int | None
    values: int
    inputs: tuple[int, ...]
    tokens: bool = False
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The features in a few words.

        >>> FeatureDescription(("gradients", "scattering"), "shapes", 700, 700, (1, 28, 28)).title
        'gradients, scattering; whitened with shapes; 700 values'
        """
        whitened = "" if self.whiten == "none" else f"; whitened with {self.whiten}"
        return f"{', '.join(self.names)}{whitened}; {self.values} values"

    @property
    def sentence(self) -> str:
        """What shaped the features: a proven sentence, or one with the assumptions on which it rests."""
        if self.assumptions:
            return f"No record shaped the features, assuming that {'; and that '.join(self.assumptions)}."
        made = "fixed formulas, applied to each record by itself"
        if self.whiten == "shapes":
            made += "; mean and covariance for the whitening are those of synthetic random shapes"
        return f"No record shaped the features: {', '.join(self.names)} are {made}."

    @property
    def digest(self) -> str:
        """Digest of everything that defines the features, equal on all machines."""
        text = json.dumps([VERSION, *self._facts().values()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON, with digest and sentence."""
        return {**self._facts(), "digest": self.digest, "sentence": self.sentence}

    def _facts(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "whiten": self.whiten,
            "rank": self.rank,
            "values": self.values,
            "inputs": list(self.inputs),
            "tokens": self.tokens,
            "sources": list(self.sources),
        }
