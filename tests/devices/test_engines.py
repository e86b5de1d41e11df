"""Every engine, statistic and evaluation computes the same on a device as on the CPU."""

import copy

import pytest
import torch
from torch import nn

from tacit.errors import TacitError
from tacit.runs import Config, from_config
from tacit.tasks import Clip, Model
from tacit.tasks.clipping import vector_norms
from tests.devices.under_test import DEVICE, DTYPE, IS_SHADOW, on_device
from tests.helpers import digits_task
from tests.tasks.test_gradients import CLIPS, ENGINES, MODELS, applicable, batch, build


def check_same(expected, found):
    assert found.device == DEVICE
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-6, check_device=False)


CASES = [(name, engine) for name in MODELS for engine in [*ENGINES[1:], "summed"] if applicable(engine, name, "l2")]
ABORT = {("resnet10", "vectorised"), ("resnet18", "vectorised")}  # PyTorch ends the process on the shadow device


@pytest.mark.parametrize(("name", "engine"), [case for case in CASES if not (IS_SHADOW and case in ABORT)])
def test_engines_compute_on_a_device(name, engine):
    clips = [None] if engine == "summed" else ["l2", *(norm for norm in CLIPS[2:] if applicable(engine, name, norm))]
    if engine == "looped":
        clips = ["l2"]
    data = batch(Model(build(name)), MODELS[name][0], 2, dtype=DTYPE)
    for norm in clips:
        clip = None if norm is None else Clip(0.5, norm)
        expected = Model(build(name), engine=engine).gradient_sum(*data, clip)
        with on_device():
            placed = (part.to(DEVICE) for part in data)
            check_same(expected, Model(build(name), engine=engine).gradient_sum(*placed, clip))


@pytest.mark.parametrize(("name", "engine"), [case for case in CASES if case[0] in ("mlp", "cnn")])
def test_padding_that_is_not_finite_has_no_influence_on_a_device(name, engine):
    """At a node with records, and at one whose batch is empty."""
    model = Model(build(name), engine=engine)
    params, x, y, weight = batch(model, MODELS[name][0], 3, dtype=DTYPE)
    weight[2] = 0
    clips = [None, Clip(0.5)] if engine != "summed" else [None, Clip(0.5, per="batch")]
    expected = [model.gradient_sum(params, x, y, weight, clip) for clip in clips]
    x[weight == 0] = float("nan")
    with on_device():
        for clip, wanted in zip(clips, expected, strict=True):
            placed = (part.to(DEVICE) for part in (params, x, y))
            check_same(wanted, Model(build(name), engine=engine).gradient_sum(*placed, weight, clip))


@pytest.mark.skipif(not IS_SHADOW, reason="transfers are counted on the shadow device")
@pytest.mark.parametrize(("name", "engine"), [case for case in CASES if case[0] in ("logistic", "mlp", "cnn")])
def test_a_gradient_reads_one_number_from_a_device_if_it_is_clipped_and_none_otherwise(name, engine):
    options = {key: value for key, value in MODELS[name][1].items() if key != "hidden"}
    norms = [norm for norm in ("l2", "l1") if engine != "summed" and applicable(engine, name, norm)]
    for clip in (None, *(Clip(1.0, norm) for norm in norms), Clip(1.0, per="batch")):
        with on_device() as transfers:
            task = digits_task(3, batch=4, model=name, options=options, engine=engine, dtype=DTYPE, device=DEVICE)
            for step in range(2):  # the first draw also tries the model
                transfers.reads.clear()
                transfers.to_host.clear()
                task.gradient(task.initial(), step, clip)
        assert not transfers.to_host
        assert transfers.reads.total() == (clip is not None)


@pytest.mark.parametrize("dtype", [torch.float32, DTYPE])
@pytest.mark.parametrize("length", [3, 200])
def test_norms_on_a_device_are_those_of_the_cpu_for_numbers_of_every_size(dtype, length):
    sizes = torch.tensor([0.0, 1e-44, 1e-38, 1e-30, 1e-20, 1e-10, 1.0, 1e18, 1e25, 3e38, float("inf"), float("nan")])
    sizes = torch.cat([sizes.double(), torch.tensor([1e-310, 1e-200, 1e100, 1e200, 1e300], dtype=torch.float64)])
    g = (sizes[:, None] * torch.randn(len(sizes), length, dtype=torch.float64)).to(dtype)
    for degree in (1, 2):
        expected = vector_norms(g, degree)
        with on_device():
            found = vector_norms(g.to(DEVICE), degree).cpu()
        torch.testing.assert_close(found, expected, rtol=1e-12 if IS_SHADOW else 1e-5, atol=0, equal_nan=True)


def frozen_statistics():
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))
    module[1].eval().requires_grad_(False)
    module[1].running_mean.fill_(0.3)
    return module


def dropout():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.4), nn.Linear(6, 3))


@pytest.mark.parametrize("make", [frozen_statistics, dropout])
def test_buffers_and_dropout_masks_are_on_the_device(make):
    torch.manual_seed(0)
    module, generator = make(), torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 5, 4, generator=generator, dtype=DTYPE), torch.zeros(2, 5, dtype=torch.int64)
    keys = torch.arange(10).view(2, 5) if make is dropout else None
    weight = torch.ones(2, 5, dtype=DTYPE)

    def gradient(device):
        model = Model(copy.deepcopy(module))
        params = model.initial().to(DTYPE).repeat(2, 1).to(device)
        placed = (None if part is None else part.to(device) for part in (x, y, weight))
        return model.gradient_sum(params, *placed, Clip(0.5), keys=None if keys is None else keys.to(device))

    expected = gradient(torch.device("cpu"))
    with on_device():
        check_same(expected, gradient(DEVICE))


def test_a_run_from_a_config_computes_evaluates_and_saves_on_a_device(monkeypatch, tmp_path):
    """With random copies of images: the choice of the device, the loop, evaluations, checkpoints and the statement."""
    config = Config.parse(
        {
            "rounds": 2,
            "device": "cuda",
            "algorithm": {"name": "dyn-d2p", "lr": 0.1, "clip": 1.0},
            "batch": {"size": 8, "augmentations": 2},
            "graph": {"nodes": 3},
            "privacy": {"epsilon": 3.0, "delta": 1e-3},
        }
    )
    monkeypatch.setattr("tacit.runs.build.choose_device", lambda name, rank: DEVICE)
    with on_device():
        run = from_config(config, out=tmp_path / "run").go()
        assert run.models.device == run.task.device == DEVICE
        text = str(run.privacy)
    assert len(run.evaluations) > 0
    assert "ChaCha20" in text
    monkeypatch.undo()
    with pytest.raises(TacitError, match="noise from ChaCha20, and a run on cpu draws from AES in counter mode"):
        from_config(config.model_copy(update={"device": "cpu"}), out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(("name", "per"), [("logistic", "record"), ("mlp", "record"), ("mlp", "batch")])
@pytest.mark.parametrize("norm", [None, *CLIPS[1:]])
def test_several_cells_compute_on_a_device(name, per, norm):
    """One clip for each of three cells, with one bound for all nodes and with one per node."""
    model = Model(build(name))
    params, x, y, weight = batch(model, MODELS[name][0], 2, dtype=DTYPE)
    points = torch.stack([params, 2 * params, -params])

    def sums(device):
        bounds = 0.5, torch.tensor([0.1, 3.0], device=device), 2.0
        clips = [None if norm is None else Clip(bound, norm, per) for bound in bounds]
        placed = (part.to(device) for part in (points, x, y, weight))
        return Model(build(name)).gradient_sums(*placed, clips)

    expected = sums(torch.device("cpu"))
    with on_device():
        check_same(expected, sums(DEVICE))


def test_padding_that_is_not_finite_has_no_influence_on_several_cells():
    model = Model(build("mlp"))
    params, x, y, weight = batch(model, MODELS["mlp"][0], 3, dtype=DTYPE)
    weight[2] = 0
    points, clips = torch.stack([params, -params]), [Clip(0.5), Clip(2.0)]
    expected = model.gradient_sums(points, x, y, weight, clips)
    x[weight == 0] = float("nan")
    with on_device():
        placed = (part.to(DEVICE) for part in (points, x, y))
        check_same(expected, Model(build("mlp")).gradient_sums(*placed, weight, clips))
