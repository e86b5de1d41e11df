"""Verification of finished runs from their folders, and signatures."""

from tacit.runs.verification.signature import fingerprint, load_private_key, load_public_key
from tacit.runs.verification.verify import Verification, verify

__all__ = ["Verification", "fingerprint", "load_private_key", "load_public_key", "verify"]
