"""Records with extreme values: no refusal, warning or stop may depend on one record."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.runs import Config, UserParts, from_config
from tacit.tasks import Clip, Dataset, Model, Target, Task, models

EXTREMES = [3.4e38, -3.4e38, 1e30, 1e20]


def records(extreme=None):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 1, 8, 8))).float()
    y = torch.arange(40) % 3
    if extreme is not None:
        x[5] = extreme
    return Dataset("extreme", x, y, x[:9], y[:9], Target.of_classes(3))


def task_of(data, name="logistic", **options):
    torch.manual_seed(0)
    relu = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
    small = {"mlp": {"hidden": (8,)}, "cnn": {"width": 2, "hidden": 4}}.get(name, {})
    module = relu if name == "relu" else models.build(name, {"inputs": data.inputs, "classes": 3, **small})
    parts = np.split(np.arange(40), 4)
    return Task(Model(module), data, parts, batch=5, noise=Noise.from_seed(0), sampling="permutation", **options)


def gradients(task, norm):
    return [task.gradient(task.initial(), step, Clip(1.0, norm)).use_locally() for step in range(2)]


@cache
def ordinary(name, norm, precision):
    """The task without an extreme record, and its gradients."""
    task = task_of(records(), name, precision=precision)
    return task, gradients(task, norm)


NAMES, NORMS = ["logistic", "mlp", "cnn", "relu"], ["l2", "l1", "smooth"]
CASES = [(name, norm, extreme, "float32") for name in NAMES for norm in NORMS for extreme in EXTREMES] + [
    (name, norm, EXTREMES[(i + j) % len(EXTREMES)], "bf16")  # each pair of a model, a norm and an extreme value
    for i, name in enumerate(NAMES)
    for j, norm in enumerate(NORMS)
]


@pytest.mark.parametrize(("name", "norm", "extreme", "precision"), CASES)
def test_an_extreme_record_moves_the_gradient_by_at_most_the_sensitivity(name, norm, extreme, precision):
    clip = Clip(1.0, norm)
    task, expected = ordinary(name, norm, precision)
    found = gradients(task_of(records(extreme), name, precision=precision), norm)
    for one, other in zip(expected, found, strict=True):
        assert other.isfinite().all()
        moved = torch.linalg.vector_norm((one - other).double(), clip.degree, dim=1).numpy()
        assert (moved <= task.sensitivity(clip) * (1 + 1e-5)).all()
        assert np.count_nonzero(moved) <= 1


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_batch_that_overflows_counts_as_zero_with_a_clip_per_batch(precision):
    changed = task_of(records(3.4e38), "relu", precision=precision)
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
            "rounds": 2,
            "evaluate_every": 2,
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


@pytest.mark.parametrize(("engine", "trials"), [("stacked", 20), ("vectorised", 5)])
@pytest.mark.parametrize("extreme", [1e36, -1e37, 1e38, 3e38])
def test_an_extreme_record_does_not_erase_the_others(engine, trials, extreme):
    """A record can be finite alone and overflow in a batch."""
    rng = np.random.default_rng(1)
    for trial in range(trials):
        x = torch.from_numpy(rng.normal(size=(20, 64))).float()
        y = torch.from_numpy(rng.integers(0, 10, 20))
        changed = x.clone()
        changed[3] = torch.from_numpy(extreme * rng.choice([-1, 1, 0.5], 64)).float()
        torch.manual_seed(trial)
        model = Model(nn.Linear(64, 10), engine=engine)
        sums = []
        for records_of in (x, changed):
            data = Dataset("d", records_of, y, x[:2], y[:2], Target.of_classes(10))
            task = Task(model, data, [np.arange(20)], noise=Noise.from_seed(0), relation="replace-one")
            sums.append(task.gradient(task.initial(), 0, Clip(1.0)).use_locally())
        assert (sums[0] - sums[1]).norm() <= task.sensitivity(Clip(1.0))[0] * (1 + 1e-5)


class Inverse(nn.Module):
    """Fails for a record of zeros beside the diagonal."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(torch.linalg.inv(x.view(-1, 2, 2) + 1e-3 * torch.eye(2)).flatten(1))


def test_an_error_that_one_record_causes_does_not_stop_the_run():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(8, 4))).float()
    singular = x.clone()
    singular[2] = torch.tensor([-1e-3, 0.0, 0.0, -1e-3])
    y = torch.zeros(8, dtype=torch.long)
    for records_of in (x, singular):
        data = Dataset("d", records_of, y, x, y, Target.of_classes(2))
        task = Task(Model(Inverse()), data, [np.arange(8)], noise=Noise.from_seed(0))
        assert task.gradient(task.initial(), 0, Clip(1.0)).use_locally().isfinite().all()


def test_too_few_outputs_are_refused_before_any_record_is_read():
    data = records()
    with pytest.raises(TacitError, match="needs a model with 3 outputs per record"):
        Task(Model(nn.Sequential(nn.Flatten(), nn.Linear(64, 2))), data, [np.arange(40)])


def test_a_run_with_exact_local_parameters_ends_like_any_other():
    config = Config.parse(
        {
            "rounds": 3,
            "graph": {"name": "ring", "nodes": 4},
            "algorithm": {"name": "const-d2p", "share": ["1.*"], "local": "exact", "noise_multiplier": 500.0},
            "batch": {"size": 5},
            "privacy": {"delta": 0.01},
        }
    )
    ended = set()
    for extreme in (None, 1e30, 3e38):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
        parts = UserParts(data=records(extreme), sharding=list(np.split(np.arange(40), 4)), model=module)
        run = from_config(config, parts).go()
        ended.add((run.stopped, run.t, run.privacy.guaranteed))
    assert len(ended) == 1
