"""Features: privacy of other records, refusals, cache."""

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import TacitError
from tacit.tasks import Dataset, FeatureMap, build_features, datasets, with_features
from tacit.tasks.features import PixelScale, cache


def _dataset(x: torch.Tensor) -> Dataset:
    data = Dataset.from_arrays(np.zeros((2, 1)), [0, 1], test=0.0, labels=[0, 1])
    y = torch.arange(len(x)) % 2
    return Dataset("own", x, y, x[:1], y[:1], data.target)


def _pictures(count: int = 6) -> torch.Tensor:
    return torch.rand(count, 1, 12, 12, generator=torch.Generator().manual_seed(0))


def _centred(record: torch.Tensor) -> torch.Tensor:
    return (record - record.mean(dim=0)).flatten()


class _BatchCentred(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=0) + x.square()).flatten(1)


@pytest.mark.parametrize(
    "feature",
    ["gradients", "scattering", "pixels", _centred, _BatchCentred(), nn.Sequential(nn.Flatten(), nn.Linear(144, 5))],
)
def test_features_of_a_record_do_not_depend_on_other_records(feature: object) -> None:
    x = _pictures()
    other = torch.cat([x[:1], 9 - 5 * x[1:]])
    made = build_features([feature], _dataset(x))
    torch.testing.assert_close(made.apply_to(x)[0], made.apply_to(other)[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(made.apply_to(x)[:1], made.apply_to(x[:1]), atol=1e-6, rtol=0)


def test_features_are_unit_vectors() -> None:
    x = _pictures()
    for whiten, rank in (("none", None), ("shapes", 20), ("shapes", None)):
        data = with_features(_dataset(x), ["gradients", "scattering"], whiten, rank)
        assert data.inputs == (20,) if rank else len(data.inputs) == 1
        torch.testing.assert_close(data.x.norm(dim=1), torch.ones(len(x)))
        assert torch.equal(data.raw[0], x)
        assert torch.equal(data.subset(np.array([1])).raw[0], x[1:2])


def _refuses_large(record: torch.Tensor) -> torch.Tensor:
    if record.max() > 100:
        raise ValueError("private value")
    return record.flatten()


def _grows(record: torch.Tensor) -> torch.Tensor:
    return record.flatten() if record.max() < 100 else torch.ones(3)


class _Halving(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(0.5).flatten(1)


@pytest.mark.parametrize("module", [nn.Sequential(nn.ReLU(inplace=True), nn.Flatten()), _Halving()])
def test_a_module_that_changes_its_input_changes_no_record(module: nn.Module) -> None:
    """Runs on the same records are recognised by the digest of the raw records."""
    x = _pictures() - 0.5
    before = x.clone()
    data = with_features(_dataset(x), [module, "pixels"])
    assert torch.equal(x, before)
    assert torch.equal(data.raw[0], before)
    torch.testing.assert_close(data.x[:, -144:], nn.functional.normalize(before.flatten(1)) / 2**0.5)


class _Lookup(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x.clamp(0, 1000).long().flatten(1))


@pytest.mark.parametrize("feature", ["gradients", "scattering", _refuses_large, _grows, _Lookup()])
def test_a_record_that_cannot_be_mapped_is_zero_and_stops_nothing(feature: object) -> None:
    x = _pictures()
    x[2, 0, 3, 3] = 3e38
    made = build_features([feature], _dataset(x))
    found = made.apply_to(x)
    assert not found[2].any()
    torch.testing.assert_close(found.norm(dim=1), torch.tensor([1.0, 1, 0, 1, 1, 1]))


def test_a_function_with_a_state_or_random_numbers_is_refused() -> None:
    seen: list[torch.Tensor] = []

    def running(record: torch.Tensor) -> torch.Tensor:
        seen.append(record)
        return (record - torch.stack(seen).mean(dim=0)).flatten() + record.sum()

    for bad in (running, lambda record: record.flatten() + torch.rand(144)):
        with pytest.raises(TacitError, match="depend on the record only"):
            build_features([bad], _dataset(_pictures()))


def test_what_shaped_the_features_is_stated_truthfully() -> None:
    data = datasets.build("digits")
    proven = build_features(["gradients"], data, "shapes").description
    assert proven.sentence.startswith("No record shaped the features: ")
    own = build_features([_centred], data).description
    assert "assuming that python: _centred was made without them" in own.sentence
    assert proven.digest != build_features(["gradients"], data).description.digest
    assert proven.digest == build_features(["gradients"], data, "shapes").description.digest


def test_the_scale_of_pixels_is_an_assumption() -> None:
    """Its mean and standard deviation are often those of the records, as for CIFAR-10."""
    scaled = replace(datasets.build("digits"), pixels=PixelScale((0.3,), (0.4,)))
    sentence = build_features(["gradients"], scaled, "shapes").description.sentence
    assert sentence == (
        "No record shaped the features, assuming that the mean and standard deviation with which pixels were "
        "standardised are public."
    )


def test_bad_features_are_refused_with_a_reason() -> None:
    data, table = datasets.build("digits"), datasets.build("synthetic-logistic", {"records": 10})
    for chosen, where, whiten, rank, reason in (
        (["gradients"], table, "none", None, "needs pictures"),
        (["gradient"], data, "none", None, 'did you mean "gradients"'),
        (["gradients"], data, "digits", None, "names the data that are trained on"),
        (["gradients"], data, "no-such", None, "unknown data set"),
        (["gradients"], data, "synthetic-logistic", None, "they must be the same"),
        (["gradients"], data, "none", 5, "only with whitening"),
        (["pixels"], table, "shapes", None, "needs pictures"),
        (["gradients"], datasets.build("digits", {"normalise": "unit"}), "none", None, "remove data.normalise"),
        ([lambda record: 1 / 0], data, "none", None, "fails on random records"),
    ):
        with pytest.raises(TacitError, match=reason):
            build_features(chosen, where, whiten, rank)
    with pytest.raises(TacitError, match="applied already"):
        with_features(with_features(data, ["pixels"]), ["pixels"])


def test_only_published_features_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "cache", lambda: tmp_path)
    data = datasets.build("digits")
    with_features(data, ["gradients"])
    assert not list(tmp_path.rglob("*.safetensors"))
    first = with_features(data, ["gradients"], published=True)
    (file,) = tmp_path.rglob("*.safetensors")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setattr(FeatureMap, "apply_to", lambda *_: pytest.fail("computed again"))
    assert torch.equal(with_features(data, ["gradients"], published=True).x, first.x)
    monkeypatch.undo()
    monkeypatch.setattr(cache, "cache", lambda: tmp_path)
    file.write_bytes(b"damaged")
    assert torch.equal(with_features(data, ["gradients"], published=True).x, first.x)
    with_features(data, ["pixels"], published=True)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2
