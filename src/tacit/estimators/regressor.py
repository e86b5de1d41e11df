"""A regressor with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from tacit.errors import TacitError
from tacit.estimators.account import PrivacyAccount
from tacit.estimators.base import AlgorithmParameter, Array, Bounds, GraphParameter, ModelParameter, TacitEstimator
from tacit.tasks import Dataset, Target


class TacitRegressor(RegressorMixin, TacitEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor that nodes train together, peer to peer, with differential privacy.

    One fit is one run, like `tacit.train`, on all rows of X. Predictions are those of the mean model, clamped to the
    range of the targets. The model "logistic" has one linear output here: it is a linear regression.

    Privacy:
        `privacy_` states what is guaranteed. A guarantee needs a declared `target_range`: a learnt one depends on the
        records. What `TacitClassifier` says about public facts, pipelines and scores holds here, too.

    Args:
        model: A name (`tacit list`), a dict with a name and parameters, a torch module (its present parameters are the
            initial ones), or a function of `inputs` and `classes` that returns a module.
        target_range: The public range (low, high) of the targets, to which they are clamped. None learns it from y;
            then nothing is guaranteed.
        algorithm: A name, or a `tacit.Algorithm` with its hyperparameters.
        lr: The step size of the algorithm; None: its default.
        clip: The clipping bound of the algorithm; None: its default.
        hyperparameters: Other hyperparameters of the algorithm, as a dict.
        graph: A name, a dict with a name and parameters, a `tacit.Graph` or a networkx graph.
        nodes: The number of nodes without `groups`. Rows are then divided evenly, by their number alone. With secret
            noise and the relation "add-remove", a digest of each row decides, so that no row moves another.
        rounds: The number of rounds.
        batch: The (expected) batch size per node, at most the size of the smallest node; None uses all records.
        sampling: How batches are drawn: "poisson", "without-replacement", "permutation" or "cyclic".
        relation: Neighbouring data sets: one record is added or removed, or one is replaced. None: as the sampling
            needs.
        epsilon: The noise is calibrated for this ε. None: `hyperparameters` set the noise.
        delta: The δ of the guarantee.
        noise: "secret", with a key of the operating system, or "simulated", from `random_state`, which protects
            nobody. None: secret without a `random_state`, simulated with one.
        random_state: The seed of initial parameters, and of simulated noise.
        feature_range: The public range (low, high) of the features, as numbers or lists: values are clamped to it, and
            it is mapped to [−1, 1]. None uses the features as they are.
        population: With secret noise: the name of the population of these records (docs/several-runs.md).
        population_budget: With secret noise: refuse a fit if all runs on the population would exceed this ε.
        account: Collects the releases of all fits, also of clones.
        out: A new folder for the files and the report of the run. Leave it out in searches, which fit several times.

    Attributes:
        target_range_: The range of the targets.
        n_features_in_: The number of features; `feature_names_in_` are their names, if X is a data frame.
        run_: The `tacit.Run` of the fit. It is not pickled.
        privacy_: The privacy statement of the fit.
        n_iter_: The number of rounds.
        model_: The trained mean model; `model_.module` is a torch module.
        groups_: The group of each node.

    Example:
        >>> x = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
        >>> model = TacitRegressor(target_range=(-1, 1), lr=0.5, epsilon=2.0, random_state=0).fit(x, x[:, 0])
        >>> model.score(x, x[:, 0]) > 0.8, model.privacy_.guaranteed <= 2.0
        (True, True)
    """

    target_range_: tuple[float, float]

    def __init__(
        self,
        model: ModelParameter = "logistic",
        *,
        target_range: tuple[float, float] | None = None,
        algorithm: AlgorithmParameter = "const-d2p",
        lr: float | None = None,
        clip: float | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        graph: GraphParameter = "one-peer-exponential",
        nodes: int = 1,
        rounds: int = 100,
        batch: int | None = 32,
        sampling: str = "poisson",
        relation: Literal["add-remove", "replace-one"] | None = None,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        noise: Literal["secret", "simulated"] | None = None,
        random_state: int | np.random.RandomState | None = None,
        feature_range: Bounds | None = None,
        population: str | None = None,
        population_budget: float | None = None,
        account: PrivacyAccount | None = None,
        out: str | Path | None = None,
    ) -> None:
        self.model = model
        self.target_range = target_range
        self.algorithm = algorithm
        self.lr = lr
        self.clip = clip
        self.hyperparameters = hyperparameters
        self.graph = graph
        self.nodes = nodes
        self.rounds = rounds
        self.batch = batch
        self.sampling = sampling
        self.relation = relation
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.random_state = random_state
        self.feature_range = feature_range
        self.population = population
        self.population_budget = population_budget
        self.account = account
        self.out = out

    def fit(self, X: Any, y: Any, groups: npt.ArrayLike | None = None) -> TacitRegressor:
        """Train on records X (rows × features) with numbers y.

        Args:
            X: The records.
            y: Their targets.
            groups: The site of each row: there is one node per distinct value. Which row is at which site is public.
        """
        X, y = self._validated(X, y, y_numeric=True)
        self.target_range_ = self._declared_range() if self.target_range is not None else _learnt_range(y)
        x, target = self._prepared(X), Target("number", range=self.target_range_)
        data = Dataset.from_arrays(x, y, test=(x[:0], y[:0]), target=target, name="X, y")
        data = replace(data, declared=self.target_range is not None)
        self._fit_run(data, groups, "the range of the targets was learnt from y. Declare it: target_range=(low, high)")
        return self

    def predict(self, X: Any) -> Array:
        """Return the predicted number of each row."""
        return self._predictions(X).numpy()

    def _declared_range(self) -> tuple[float, float]:
        try:
            low, high = map(float, self.target_range or ())
        except (TypeError, ValueError):
            raise TacitError(f"target_range must be two numbers (low, high), got {self.target_range}") from None
        return low, high


def _learnt_range(y: Array) -> tuple[float, float]:
    low, high = float(y.min()), float(y.max())
    return (low, high) if low < high else (low - 1.0, high + 1.0)
