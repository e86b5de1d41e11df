"""What both estimators have in common: one fit is one run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import networkx as nx
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.estimators.account import PrivacyAccount
from tacit.estimators.settings import InvalidRecords, Sites, build_run
from tacit.graphs import Graph
from tacit.privacy import Privacy
from tacit.runs import Run, TrainedModel
from tacit.tasks import Dataset, Model

Array = npt.NDArray[Any]
ModelParameter: TypeAlias = str | Mapping[str, Any] | nn.Module | Model | Callable[..., nn.Module]
AlgorithmParameter: TypeAlias = str | Algorithm[Any]
GraphParameter: TypeAlias = "str | Mapping[str, Any] | Graph | nx.Graph"
Bounds: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike]


class TacitEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of the estimators. Derived classes declare their parameters, which `build_run` reads."""

    model: ModelParameter
    algorithm: AlgorithmParameter
    lr: float | None
    clip: float | None
    hyperparameters: Mapping[str, Any] | None
    graph: GraphParameter
    nodes: int
    rounds: int
    batch: int | None
    sampling: str
    relation: Literal["add-remove", "replace-one"] | None
    epsilon: float | None
    delta: float
    noise: Literal["secret", "simulated"] | None
    random_state: int | np.random.RandomState | None
    feature_range: Bounds | None
    population: str | None
    population_budget: float | None
    account: PrivacyAccount | None
    out: str | Path | None

    n_features_in_: int
    run_: Run
    privacy_: Privacy
    n_iter_: int
    model_: TrainedModel
    groups_: Array

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without `run_`, whose ledger is an open database."""
        state: dict[str, Any] = super().__getstate__()
        return {key: value for key, value in state.items() if key != "run_"}

    def _fit_run(self, data: Dataset, groups: npt.ArrayLike | None, undeclared: str) -> None:
        """Run the training and keep its results; `undeclared` says which public facts are missing, if so."""
        if not isinstance(self.account, PrivacyAccount | None):
            raise TacitError(f"account must be a tacit.PrivacyAccount, got {type(self.account).__name__}")
        sites = None if groups is None else Sites.of(groups, data.x.numpy())
        if not data.declared:
            warnings.warn(f"No privacy is guaranteed: {undeclared}", UserWarning, stacklevel=3)
        run = build_run(self, data, sites)
        self._go(run)
        self.model_ = run.trained()
        self.run_, self.privacy_, self.n_iter_ = run, run.privacy, run.t
        self.groups_ = np.arange(run.task.n) if sites is None else sites.groups

    def _go(self, run: Run) -> None:
        """Train, and note what was released in the account, however the run ends."""
        title = f"{run.algorithm.title}, {run.rounds} rounds"
        begun = None if self.account is None else self.account.begin(title, run.privacy)
        try:
            run.go()
        finally:
            if self.account is not None and begun is not None:
                self.account.end(begun, run.task.ledger.releases(), run.privacy)
        if run.interrupted:
            raise KeyboardInterrupt

    def _validated(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """Return X in float32, and y if it is given, as scikit-learn checks them; errors contain no value of a cell."""
        try:
            return validate_data(self, X, y, dtype=np.float32, **options)
        except ValueError as error:
            text = str(error)
            if "could not convert" in text:
                text = "X and numeric targets must contain numbers only; there is a cell that is not a number"
            elif (start := text.find("\narray=")) >= 0:
                text = f"{text[:start].rstrip(':')}. Reshape your data to one row per record: (records, features)"
            raise InvalidRecords(text) from None

    def _prepared(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return features whose public range is mapped to [−1, 1], and clamped to it; each row by itself."""
        if self.feature_range is None:
            return x
        try:
            low, high = (np.broadcast_to(np.asarray(bound, np.float64), x.shape[1:]) for bound in self.feature_range)
        except (TypeError, ValueError):
            raise TacitError(
                f"feature_range must be (low, high), two numbers or two lists of {x.shape[1]} numbers"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise TacitError("feature_range must be finite, with low < high for every feature")
        scaled = (2 * np.clip(x.astype(np.float64), low, high) - (low + high)) / (high - low)
        return scaled.astype(np.float32)

    def _predictions(self, X: Any) -> Tensor:
        """Return what the mean model predicts: probabilities (B, C), or values (B,)."""
        check_is_fitted(self)
        x = self._validated(X, reset=False)
        return self.model_.predictions(self.model_.checked(self._prepared(x)))
