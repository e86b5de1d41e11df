"""The state of a run at one evaluation, from which metrics are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, overload

import torch
from torch import Tensor

from tacit.algorithms import Algorithm, Stepper, inner_state
from tacit.networks import Network, Traffic
from tacit.privacy import Privacy
from tacit.runs.metrics.prediction_metric import PredictionMetric, scores_of
from tacit.tasks import Predictions, Task

T = TypeVar("T")


class computed_once(Generic[T]):
    """`functools.cached_property` without its lock.

    In Python 3.11 that lock is shared by all instances. Nodes in threads that exchange values inside the property would
    wait for each other forever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> computed_once[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


@dataclass
class Evaluation:
    """What metrics may read. Values that several metrics need are computed once.

    Attributes:
        state: The algorithm's state, with that of its options.
        privacy: The privacy spent so far.
        traffic: What all nodes have sent so far.
        elapsed: Returns the seconds since the run began.
        tested: The metrics of predictions that are measured.
    """

    all_nodes: ClassVar[bool] = True
    """Whether the nodes may exchange models for a measurement. In a network of sites they may not."""

    task: Task
    algorithm: Algorithm[Any]
    network: Network
    state: Any
    privacy: Privacy
    traffic: Traffic
    elapsed: Callable[[], float]
    tested: Sequence[PredictionMetric] = ()

    @computed_once
    def models(self) -> Tensor:
        """Each hosted node's model, (n, d)."""
        return Stepper(self.algorithm).models(self.state)

    @computed_once
    def parts(self) -> tuple[Tensor, Tensor]:
        """The shared parameters (n, s) and the local ones (n, d - s) of each hosted node's model."""
        return self.task.split(self.models)

    @computed_once
    def mean(self) -> Tensor:
        """The mean of all nodes' shared parameters, (s,)."""
        return self.network.mean(self.parts[0])

    @computed_once
    def test(self) -> dict[str, float]:
        """The metrics in `tested` of the mean model on the test records, by name; NaN where one is not defined."""
        names = [each.name for each in self.tested]
        return dict(zip(names, self.over_models(lambda found: scores_of(found, self.tested)), strict=True))

    def over_models(self, measure: Callable[[Predictions], list[float]]) -> list[float]:
        """Return what `measure` returns for the mean model's predictions for the test records.

        Where nodes have local parameters, each node completes the mean with its own, and the numbers are averaged.
        """
        local = self.parts[1]
        if not local.shape[1]:
            return measure(self.task.predict_tests(self.mean))
        each = [measure(self.task.predict_tests(torch.cat([self.mean, own]))) for own in local]
        return self.mean_over_nodes(torch.tensor(each, dtype=torch.float64))

    @computed_once
    def norms(self) -> dict[str, float]:
        """The norms that the algorithm reports, averaged over all nodes."""
        norms = self.algorithm.norms(inner_state(self.state))
        return dict(zip(norms, self.mean_over_nodes(torch.stack(list(norms.values()), 1)), strict=True))

    def mean_over_nodes(self, values: Tensor) -> list[float]:
        """Return the mean of each column of values (n, k) over all nodes; NaN if a node has none that is finite.

        Local parameters may be anything. A measurement of them must not stop the run.
        """
        is_finite = values.isfinite()
        sums = self.network.mean(torch.cat([torch.where(is_finite, values, 0.0), is_finite.to(values.dtype)], 1))
        mean, share = sums.tensor_split(2)
        return torch.where(share < 1, torch.nan, mean).tolist()
