"""Attacks on the code that runs: an ε that is printed is an ε that was tried."""

from tacit.audit.attack import Verdict, attack
from tacit.audit.audit import Audit, Finding, audit
from tacit.audit.bounds import lower_bound
from tacit.audit.graphs import audit_graphs
from tacit.audit.onerun import Guesses, OneRun, one_run
from tacit.audit.worlds import Copies, Eavesdropper, worlds

__all__ = [
    "Audit",
    "Copies",
    "Eavesdropper",
    "Finding",
    "Guesses",
    "OneRun",
    "Verdict",
    "attack",
    "audit",
    "audit_graphs",
    "lower_bound",
    "one_run",
    "worlds",
]
