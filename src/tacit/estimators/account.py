"""The composed ε of several fits, such as those of a grid search."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.privacy import Privacy, RecordedRun, Release, rounded_up, total_of_runs
from tacit.runs import storage

_COMPOSED = "{} fits are composed as if every record took part in each of them."
_SCORES = (
    "Scores that are measured on these records contain no noise. ε covers neither such scores nor a choice of "
    "hyperparameters by them."
)
_FOLDS = "no record decides which other records a fit uses"


@dataclass(frozen=True)
class AccountedFit:
    """One fit: its releases, and its privacy statement, from which δ, relation and adversary are taken."""

    run: RecordedRun
    privacy: Privacy

    def as_table(self) -> dict[str, Any]:
        """Return the fit for a JSON file."""
        *facts, packed, reason = self.run.as_row()
        text = None if packed is None else base64.b64encode(packed).decode()
        return {"run": [*facts, text, reason], "privacy": self.privacy.as_dict()}

    @classmethod
    def from_table(cls, table: dict[str, Any], where: Path) -> AccountedFit:
        """Return the fit that `as_table` made."""
        try:
            *facts, text, reason = table["run"]
            packed = None if text is None else base64.b64decode(text)
            return cls(RecordedRun.from_row([*facts, packed, reason]), Privacy(**table["privacy"]))
        except Exception as error:
            raise TacitError(f"{where} is not a fit of a PrivacyAccount: {type(error).__name__}") from None


class PrivacyAccount:
    """Collects the releases of all fits of the estimators that share it, and composes their ε.

    Pass one account to an estimator: `clone` keeps it, so all fits of a grid search or a cross-validation are in it,
    also those that fail and the final one on all records.

    Privacy:
        All fits are accounted jointly, as if every record took part in each of them. This is an upper bound: in a
        cross-validation with k folds, a record takes part in k − 1 of k fits. The total assumes that no record decides
        which other records a fit uses: `LeaveOneGroupOut` and `PredefinedSplit` fulfil this, `KFold` under the relation
        "replace-one", and `StratifiedKFold` never, because it depends on all labels. The total does not cover scores on
        held-out records, which contain no noise.

    Args:
        folder: A folder for one file per fit, which several processes can share (`GridSearchCV(n_jobs=2)`). By default
            the account is in memory, and fits in other processes are refused.

    Example:
        >>> import numpy as np
        >>> from tacit.estimators import TacitClassifier
        >>> account = PrivacyAccount()
        >>> model = TacitClassifier(classes=[0, 1], rounds=5, random_state=0, account=account)
        >>> x = np.linspace(-1, 1, 64)[:, None]
        >>> for _ in range(2):
        ...     _ = model.fit(x, x[:, 0] > 0)
        >>> account.fits, model.privacy_.guaranteed < account.total().guaranteed < 2 * model.privacy_.guaranteed
        (2, True)
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder).absolute()
        self._fits: dict[str, AccountedFit] = {}
        self._is_copy = False

    def __repr__(self) -> str:
        return f"PrivacyAccount({'' if self.folder is None else repr(str(self.folder))}) with {self._content()}"

    def _content(self) -> str:
        """Return the number of fits and their ε in words."""
        try:
            if (fits := self.fits) == 0:
                return "no fits"
            total = self.total()
        except TacitError as error:
            return f"no total: {error}"
        kind = "guaranteed (simulated)" if total.simulated else "guaranteed"
        reached = "no total ε" if total.guaranteed is None else f"{kind} ε = {rounded_up(total.guaranteed)}"
        return f"{fits} fit{'s' * (fits > 1)}, {reached}, δ = {total.delta:g}"

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyAccount:
        """Return the account itself: `sklearn.clone` copies parameters, and clones share their account."""
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _is_copy=True)

    @property
    def fits(self) -> int:
        """The number of fits, with those that failed or have not ended."""
        return len(self._all())

    @property
    def releases(self) -> list[list[Release]]:
        """The releases of each fit that has ended."""
        return [each.run.releases for each in self._all() if each.run.releases is not None]

    def total(self, delta: float | None = None) -> Privacy:
        """Return the privacy of all fits together.

        Args:
            delta: δ of the total; by default, the δ of the fits.

        Raises:
            TacitError: There is no fit, or the fits have different δ.
        """
        fits = self._all()
        if not fits:
            raise TacitError("The account has no fits: pass it to an estimator, with account=, and call fit")
        stated = [each.privacy for each in fits]
        deltas = sorted({each.delta for each in stated})
        if delta is None and len(deltas) > 1:
            raise TacitError(f"The fits have different δ ({', '.join(f'{each:g}' for each in deltas)}): give delta=")
        delta = deltas[0] if delta is None else delta
        total = total_of_runs([each.run for each in fits], delta)
        adversaries = sorted({each.adversary for each in stated})
        reason = total.reason
        if reason is None and len(adversaries) > 1:
            reason = f"the fits have different adversaries ({'; '.join(adversaries)})"
        several = len(fits) > 1
        notes = ([_COMPOSED.format(len(fits)), _SCORES] if several else []) + [each.note or "" for each in stated]
        assumes = [each.assumes or "" for each in stated] + ([_FOLDS] if several else [])
        return Privacy(
            guaranteed=None if reason else total.epsilon,
            claimed=None,
            delta=delta,
            unit=stated[-1].unit,
            relation=stated[-1].relation,
            adversary=adversaries[0],
            reason=reason,
            note=" ".join(_different(notes)) or None,
            assumes="; ".join(_different(assumes)) or None,
            simulated=any(each.simulated for each in stated),
            covers_models=all(each.covers_models for each in stated),
        )

    def begin(self, title: str, privacy: Privacy) -> RecordedRun:
        """Note that a fit begins, and return its entry. Until it ends, its releases are unknown and there is no total.

        Raises:
            TacitError: This is a copy of an account in memory: its original would not contain the fit.
        """
        if self._is_copy and self.folder is None:
            raise TacitError(
                "This PrivacyAccount is a copy of one in another process, which would not contain this fit: use "
                "PrivacyAccount(folder), or n_jobs=1"
            )
        started = datetime.now(UTC).isoformat(timespec="microseconds")
        begun = RecordedRun(uuid.uuid4().hex, title, started, False, None)
        self._store(AccountedFit(begun, privacy))
        return begun

    def end(self, begun: RecordedRun, releases: Iterable[Release], privacy: Privacy) -> None:
        """Replace the entry of a fit by what it released."""
        ended = begun._replace(ended=True, releases=list(releases), reason=privacy.reason)
        self._store(AccountedFit(ended, privacy))

    def _store(self, fit: AccountedFit) -> None:
        if self.folder is None:
            self._fits[fit.run.id] = fit
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TacitError(f"PrivacyAccount: cannot create {self.folder}: {error.strerror or error}") from None
        storage.write_json(self.folder / f"{fit.run.id}.json", fit.as_table())

    def _all(self) -> list[AccountedFit]:
        fits = list(self._fits.values())
        if self.folder is not None:
            fits = [AccountedFit.from_table(storage.read_table(path), path) for path in self.folder.glob("*.json")]
        return sorted(fits, key=lambda each: each.run.started)


def _different(sentences: list[str]) -> list[str]:
    return [each for each in dict.fromkeys(sentences) if each]
