"""Verification of a finished run: ε is recomputed from the ledger and compared with everything in the folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.errors import TacitError
from tacit.privacy import rounded_up
from tacit.runs import storage
from tacit.runs.recorded_facts import RecordedFacts
from tacit.runs.run_facts import utc_now
from tacit.runs.verification import file_checks
from tacit.runs.verification.accounted_privacy import AccountedPrivacy
from tacit.runs.verification.evidence import Evidence, Findings, read_file
from tacit.runs.verification.ledger_checks import check_ledgers
from tacit.runs.verification.rebuilt_run import RebuiltRun
from tacit.runs.verification.signature import fingerprint, sign_run, signature_difference

T = TypeVar("T")
_MAX_REMEMBERED = 256
_remembered: dict[str, Verification] = {}  # by the digest of everything that was verified


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    It proves that the files of a run agree with each other and with the ledger. It does not prove that the ledger is
    honest: whoever can write the folder can write a consistent one. A signature shows who vouches for it.

    Attributes:
        time: When the run was verified, in UTC.
        guaranteed: The guaranteed ε from the ledger; None if nothing is guaranteed or it could not be computed.
        differences: One sentence per difference; empty if the run is verified.
        checked: What agrees.
        unchecked: What could not be checked, with the reason.
        facts: What the ledger records about the run; None if it cannot be read.
        signed_by: The fingerprint of the key of a valid signature; None if there is none.
    """

    folder: Path
    time: str
    guaranteed: float | None
    differences: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    facts: RecordedFacts | None
    signed_by: str | None

    @property
    def holds(self) -> bool:
        return not self.differences

    def require(self) -> Verification:
        """Return the verification itself, or raise a TacitError with all differences."""
        if self.differences:
            lines = "".join(f"\n  {line}" for line in self.differences)
            raise TacitError(f"{self.folder} does not agree with its ledger, so its numbers are not used:{lines}")
        return self

    def as_dict(self) -> dict[str, Any]:
        """The result as `tacit verify --json` prints it."""
        return {
            "run": str(self.folder),
            "verified": self.holds,
            "time": self.time,
            "guaranteed": self.guaranteed,
            "differences": list(self.differences),
            "checked": list(self.checked),
            "not_checked": list(self.unchecked),
            "signed_by": self.signed_by,
        }


def verify(
    folder: str | Path, *, public_key: Ed25519PublicKey | None = None, sign: Ed25519PrivateKey | None = None
) -> Verification:
    """Verify the finished run in `folder`.

    Args:
        folder: The folder of a run, or the state folder of a site. No code is executed that it contains or names.
        public_key: The key with which the run must be signed.
        sign: Sign the run with this key if there are no differences. An earlier signature is replaced.

    Raises:
        TacitError: `folder` is not the folder of a run.
    """
    findings, folder = Findings(), Path(folder)
    evidence = Evidence.read(folder, findings)
    key = evidence.digest if public_key is None and sign is None and not findings.differences else ""
    if key in _remembered:
        return replace(_remembered[key], folder=folder, time=utc_now())
    found = _verify(evidence, findings)
    if sign is not None and not findings.differences:
        sign_run(folder, [part.digest for part in evidence.ledgers], sign)
    signed_by = _check_signature(evidence, public_key, findings)
    verification = _result(evidence, found, findings, signed_by)
    if key and verification.holds and len(_remembered) < _MAX_REMEMBERED:
        _remembered[key] = verification
    return verification


def _result(
    evidence: Evidence, found: AccountedPrivacy | None, findings: Findings, signed_by: str | None
) -> Verification:
    return Verification(
        evidence.folder,
        utc_now(),
        None if found is None else found.guaranteed,
        tuple(map(_printable, dict.fromkeys(findings.differences))),
        tuple(findings.checked),
        tuple(map(_printable, findings.unchecked)),
        evidence.facts if evidence.ledgers else None,
        signed_by,
    )


def _verify(evidence: Evidence, findings: Findings) -> AccountedPrivacy | None:
    if not evidence.ledgers:
        return None
    _guarded(storage.LEDGER_FILE, partial(check_ledgers, evidence, findings), findings)
    _guarded(storage.CONFIG_FILE, partial(file_checks.check_config, evidence, findings), findings)
    built = _guarded("the config in the ledger", partial(RebuiltRun.build, evidence), findings)
    rebuilt = built if isinstance(built, RebuiltRun) else None
    if rebuilt is None:
        findings.unchecked.append(f"the plan of the releases, because the run cannot be rebuilt here: {built}")
    else:
        _guarded("the plan", partial(rebuilt.check_plan, evidence, findings), findings)
    found = _guarded(storage.LEDGER_FILE, partial(AccountedPrivacy, evidence, rebuilt), findings)
    if found is not None:
        _guarded(storage.RESULT_FILE, partial(file_checks.check_result, evidence, found, findings), findings)
        _guarded(storage.HISTORY_FILE, partial(file_checks.check_history, evidence, found, findings), findings)
        _guarded(storage.NODES_FILE, partial(file_checks.check_nodes, evidence, found, findings), findings)
        _guarded(storage.THREATS_FILE, partial(file_checks.check_threats, evidence, found, findings), findings)
        _guarded(storage.MODEL_FILE, partial(file_checks.check_model, evidence, found, findings), findings)
    _guarded(storage.CHECKPOINT_FILE, partial(file_checks.check_checkpoint, evidence, findings), findings)
    _guarded("the digests of the files", partial(file_checks.check_digests, evidence, findings), findings)
    if found is not None and not findings.differences:
        findings.checked = [*_agreements(evidence, found), *findings.checked]
    return found


def _agreements(evidence: Evidence, found: AccountedPrivacy) -> list[str]:
    """What agrees in a run without differences."""
    releases, nodes = max(len(part.releases) for part in evidence.ledgers), len(found.per_node)
    epsilon = "no ε is guaranteed" if found.guaranteed is None else f"guaranteed ε = {rounded_up(found.guaranteed)}"
    source = f"{releases:,} releases of {nodes:,} node{'s' if nodes > 1 else ''}"
    files = sorted({storage.CONFIG_FILE, *evidence.facts.files})
    return [
        f"{epsilon} at δ = {evidence.facts.delta:g}, recomputed from {source}",
        f"the ε of all {len(evidence.history or [])} evaluations",
        f"{', '.join(files)}: as the run has written them",
    ]


def _check_signature(evidence: Evidence, public_key: Ed25519PublicKey | None, findings: Findings) -> str | None:
    """Check the signature, if there is one or must be one; return the fingerprint of its key."""
    path = evidence.folder / storage.SIGNATURE_FILE
    if not path.exists():
        findings.expect(public_key is None, f"{path.name} is missing: the run is not signed")
        return None
    table = read_file(findings, path, storage.read_table)
    if table is None:
        return None
    if why := signature_difference(table, [part.digest for part in evidence.ledgers]):
        findings.differences.append(f"{path.name}: {why}")
        return None
    signer = fingerprint(table["public_key"])
    if public_key is not None and signer != fingerprint(public_key):
        findings.differences.append(f"{path.name}: signed with the key {signer}, not with {fingerprint(public_key)}")
    return signer


def _guarded(what: str, check: Callable[[], T], findings: Findings) -> T | None:
    """Run a check. Whatever someone has written into a file, the outcome is a difference and not a traceback."""
    try:
        return check()
    except TacitError as error:
        findings.differences.append(f"{what}: {error}")
    except Exception as error:
        findings.differences.append(f"{what} cannot be checked: {type(error).__name__}")
    return None


def _printable(text: str) -> str:
    """A folder may come from anyone: what it contains must not control the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
