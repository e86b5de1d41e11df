"""Empirical lower bounds on ε: attacks on the code that runs (docs/audit.md)."""

from tacit.audit.attack import AttackResult, AttackScores, attack
from tacit.audit.audit import audit, audit_algorithm
from tacit.audit.bounds import lower_bound
from tacit.audit.canary_task import canary_task
from tacit.audit.escapes import EscapeCheck, check_escapes
from tacit.audit.gallery import GALLERY, GalleryEntry
from tacit.audit.graph_learners import audit_graph_learner, audit_named_learner
from tacit.audit.membership import MembershipGuesses
from tacit.audit.one_run import audit_one_run
from tacit.audit.papers import PaperClaim, paper_claims
from tacit.audit.recording import RecordingNetwork, ReplicatedGraph
from tacit.audit.refutations import REFUTATIONS, Refutation
from tacit.audit.results import AuditResult, OneRunAudit, ProfilePoint, TrialsAudit

__all__ = [
    "GALLERY",
    "REFUTATIONS",
    "AttackResult",
    "AttackScores",
    "AuditResult",
    "EscapeCheck",
    "GalleryEntry",
    "MembershipGuesses",
    "OneRunAudit",
    "PaperClaim",
    "ProfilePoint",
    "RecordingNetwork",
    "Refutation",
    "ReplicatedGraph",
    "TrialsAudit",
    "attack",
    "audit",
    "audit_algorithm",
    "audit_graph_learner",
    "audit_named_learner",
    "audit_one_run",
    "canary_task",
    "check_escapes",
    "lower_bound",
    "paper_claims",
]
