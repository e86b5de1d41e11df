"""Against whom a run protects: adversaries as values, and an ε for each that is proven."""

from tacit.threats.against import PAIRS, Against, Assessment, against, assess
from tacit.threats.leverage import leverage
from tacit.threats.models import Colluders, Eavesdropper, ModelHolder, Neighbour, Threat

__all__ = [
    "PAIRS",
    "Against",
    "Assessment",
    "Colluders",
    "Eavesdropper",
    "ModelHolder",
    "Neighbour",
    "Threat",
    "against",
    "assess",
    "leverage",
]
