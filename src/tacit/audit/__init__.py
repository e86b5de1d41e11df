"""Attacks on the code that runs: an ε that is printed is an ε that was tried."""

from tacit.audit.attack import Verdict, attack
from tacit.audit.audit import Audit, audit
from tacit.audit.bounds import lower_bound
from tacit.audit.worlds import Copies, Eavesdropper, worlds

__all__ = ["Audit", "Copies", "Eavesdropper", "Verdict", "attack", "audit", "lower_bound", "worlds"]
