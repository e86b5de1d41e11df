"""A classifier with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tacit.errors import TacitError
from tacit.estimators.account import PrivacyAccount
from tacit.estimators.base import AlgorithmParameter, Array, Bounds, GraphParameter, ModelParameter, TacitEstimator
from tacit.estimators.settings import InvalidRecords
from tacit.tasks import Dataset


class TacitClassifier(ClassifierMixin, TacitEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that nodes train together, peer to peer, with differential privacy.

    One fit is one run, like `tacit.train`, on all rows of X. Predictions are those of the mean model.

    Privacy:
        `privacy_` states what is guaranteed. A guarantee needs declared `classes`: learnt ones depend on the records.
        The numbers of features, of rows and of rows per group are public. A transformer before the estimator in a
        pipeline must not learn from the records, or ε does not cover what it learnt: use `feature_range` to scale
        features. `score` on private records contains no noise.

    Args:
        model: A name (`tacit list`), a dict with a name and parameters, a torch module (its present parameters are the
            initial ones), or a function of `inputs` and `classes` that returns a module.
        classes: The declared classes, which are public. None learns them from y; then nothing is guaranteed.
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
        classes_: The classes, sorted.
        n_features_in_: The number of features; `feature_names_in_` are their names, if X is a data frame.
        run_: The `tacit.Run` of the fit. It is not pickled.
        privacy_: The privacy statement of the fit.
        n_iter_: The number of rounds.
        model_: The trained mean model; `model_.module` is a torch module.
        groups_: The group of each node.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 2))
        >>> site = np.repeat(["north", "south", "west"], 100)
        >>> model = TacitClassifier(classes=[False, True], lr=1.0, random_state=0).fit(x, x[:, 0] > 0, groups=site)
        >>> model.score(x, x[:, 0] > 0) > 0.9, model.privacy_.guaranteed <= 1.0
        (True, True)
    """

    classes_: Array

    def __init__(
        self,
        model: ModelParameter = "logistic",
        *,
        classes: Sequence[Any] | None = None,
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
        self.classes = classes
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

    def fit(self, X: Any, y: Any, groups: npt.ArrayLike | None = None) -> TacitClassifier:
        """Train on records X (rows × features) with classes y.

        Args:
            X: The records.
            y: Their classes: numbers or text.
            groups: The site of each row: there is one node per distinct value. Which row is at which site is public.
        """
        X, y = self._validated(X, y)
        y = np.array(y.tolist()) if y.dtype.kind == "O" else y
        self.classes_ = self._declared_classes() if self.classes is not None else _learnt_classes(y)
        x = self._prepared(X)
        data = Dataset.from_arrays(x, y, test=(x[:0], y[:0]), labels=self.classes_.tolist(), name="X, y")
        data = replace(data, declared=self.classes is not None)
        self._fit_run(data, groups, "the classes were learnt from y. Declare them: classes=[...]")
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (rows × classes), in the order of `classes_`."""
        predictions = self._predictions(X)
        if not self.model_.known_head.has_probabilities:
            raise TacitError(
                "The model has a loss of its own, so its outputs are scores and no probabilities: use predict"
            )
        return predictions.numpy()

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        decided = self._predictions(X).argmax(1).numpy()
        labels: Array = self.classes_[decided]
        return labels

    def _declared_classes(self) -> Array:
        declared = np.asarray(self.classes)
        different = np.unique(declared)
        if declared.ndim != 1 or len(different) < max(2, len(declared)):
            raise TacitError(f"classes must be a list of at least 2 different values, got {self.classes}")
        return different


def _learnt_classes(y: Array) -> Array:
    check_classification_targets(y)
    classes: Array = np.unique(y)
    if len(classes) < 2:
        raise InvalidRecords("y has 1 class, and a classifier needs at least 2: declare them with classes=[...]")
    return classes
