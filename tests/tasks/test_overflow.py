"""Records with extreme values: no refusal, warning or stop may depend on one record."""

import numpy as np
import pytest
import torch
from torch import nn

from tacit.privacy import Noise
from tacit.runs import Config, UserParts, from_config
from tacit.tasks import Clip, Dataset, Model, Task, models

EXTREMES = [3.4e38, -3.4e38, 1e30, 1e20]


def records(extreme=None):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 1, 8, 8))).float()
    y = torch.arange(40) % 3
    if extreme is not None:
        x[5] = extreme
    return Dataset("extreme", x, y, x[:9], y[:9], 3)


def task_of(data, name="logistic", **options):
    torch.manual_seed(0)
    relu = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
    module = relu if name == "relu" else models.build(name, {"inputs": data.inputs, "classes": 3})
    parts = np.split(np.arange(40), 4)
    return Task(Model(module), data, parts, batch=5, noise=Noise.from_seed(0), sampling="permutation", **options)


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn", "relu"])
@pytest.mark.parametrize("norm", ["l2", "l1", "smooth"])
@pytest.mark.parametrize("extreme", EXTREMES)
def test_an_extreme_record_moves_the_gradient_by_at_most_the_sensitivity(name, norm, extreme):
    clip = Clip(1.0, norm)
    ordinary, changed = task_of(records(), name), task_of(records(extreme), name)
    params = ordinary.initial()
    for step in range(2):
        one, other = (task.gradient(params, step, clip).use_locally() for task in (ordinary, changed))
        assert other.isfinite().all()
        moved = torch.linalg.vector_norm((one - other).double(), clip.degree, dim=1).numpy()
        assert (moved <= ordinary.sensitivity(clip) * (1 + 1e-5)).all()
        assert np.count_nonzero(moved) <= 1


def test_a_batch_that_overflows_counts_as_zero_with_a_clip_per_batch():
    changed = task_of(records(3.4e38), "relu")
    clip = Clip(1.0, per="batch")
    g = torch.stack([changed.gradient(changed.initial(), step, clip).use_locally() for step in range(2)])
    assert g.isfinite().all()
    assert (g.norm(dim=2) <= 1.0).all()


def test_without_a_clip_an_overflow_stays_visible():
    changed = task_of(records(3.4e38), "relu")
    g = [changed.gradient(changed.initial(), step).use_locally() for step in range(2)]
    assert not torch.stack(g).isfinite().all()


@pytest.mark.parametrize("algorithm", ["const-d2p", "porter", "sgpdp", "dp-sgd"])
def test_a_run_with_an_extreme_record_ends_like_any_other(algorithm, recwarn):
    config = Config.parse(
        {
            "rounds": 3,
            "graph": {"name": "ring", "nodes": 4},
            "algorithm": algorithm,
            "batch": {"size": 5},
            "privacy": {"epsilon": 1.0, "delta": 0.01},
        }
    )
    ended = {}
    for extreme in (None, *EXTREMES):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
        parts = UserParts(data=records(extreme), sharding=list(np.split(np.arange(40), 4)), model=module)
        run = from_config(config, parts).go()
        ended[extreme] = run.stopped, run.t, run.models.shape, run.privacy.guaranteed, len(recwarn)
        assert run.models.isfinite().all()
        recwarn.clear()
    assert len(set(ended.values())) == 1
