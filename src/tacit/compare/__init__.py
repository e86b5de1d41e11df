"""Methods side by side: one task, one guaranteed ε, one cost axis, several seeds."""

from tacit.compare.compare import compare

__all__ = ["compare"]
