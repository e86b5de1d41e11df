"""Weights by records: value and sensitivity are scaled together, wherever a node is hosted."""

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks import Clip, Task
from tests.helpers import digits_task

SIZES = [100, 40, 300]
WEIGHTS = [3 * size / sum(SIZES) for size in SIZES]


def weighted(task, **changes):
    return Task(
        task.model,
        task.data,
        task.shards,
        batch=8,
        noise=Noise.from_seed(0),
        dtype=torch.float64,
        **{"weighting": "records", **changes},
    )


@pytest.mark.parametrize("clip", [Clip(0.5), Clip(0.5, "smooth"), Clip(2.0, "l1", "batch"), None])
def test_gradient_and_sensitivity_are_scaled_by_the_same_number(clip):
    plain = digits_task(nodes=3, sizes=SIZES, dtype=torch.float64, weight_decay=0.1)
    task = weighted(plain)
    assert task.weights == pytest.approx(WEIGHTS, rel=1e-6)
    one, other = (each.gradient(each.initial() + 0.1, 3, clip) for each in (plain, task))
    factors = torch.tensor(task.weights)[:, None]
    assert torch.allclose(other.use_locally(), factors * one.use_locally(), rtol=1e-12, atol=0)
    if clip is None:
        assert other.sensitivity is None
    else:
        assert other.sensitivity.tolist() == (task.weights * plain.sensitivity(clip)).tolist()
        assert task.sensitivity(clip).tolist() == other.sensitivity.tolist()


def test_the_weighted_mean_is_the_mean_over_all_records():
    task = weighted(digits_task(nodes=3, sizes=SIZES, dtype=torch.float64))
    whole = digits_task(nodes=1, sizes=[sum(SIZES)], dtype=torch.float64)
    records = np.concatenate(task.shards)
    alone = Task(whole.model, whole.data, [records], noise=Noise.from_seed(0), dtype=torch.float64)
    params = task.initial()[0] + 0.2
    assert torch.allclose(task.full_gradient(params).mean(0), alone.full_gradient(params)[0], rtol=1e-5, atol=1e-8)


def test_weights_do_not_depend_on_who_hosts_a_node():
    task = weighted(digits_task(nodes=3, sizes=SIZES, dtype=torch.float64))
    alone = task.host([1])
    assert alone.weights.tolist() == task.weights[[1]].tolist()
    assert alone.sensitivity(Clip(1.0)).tolist() == task.sensitivity(Clip(1.0))[[1]].tolist()
    assert alone.of_network().weights.tolist() == task.weights.tolist()
    assert digits_task(nodes=3, sizes=SIZES).weights.tolist() == [1.0] * 3


def test_unknown_sizes_are_refused():
    task = digits_task(nodes=1, sizes=[100])
    with pytest.raises(TacitError, match="needs the public number of records of every node"):
        weighted(task, nodes=np.array([2]))
    assert weighted(task, nodes=np.array([2]), network_sizes=np.array([100, 300, 100])).weights == pytest.approx(0.6)
