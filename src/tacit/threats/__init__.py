"""Privacy bounds for adversaries that see less than an eavesdropper on every link (docs/threat-models.md)."""

from tacit.threats.analysis import analyse_threats, bound_against
from tacit.threats.bounds import AdversaryBound, ThreatAnalysis
from tacit.threats.leverage import leverage

__all__ = ["AdversaryBound", "ThreatAnalysis", "analyse_threats", "bound_against", "leverage"]
