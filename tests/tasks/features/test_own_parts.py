"""Features and data sets that are registered from outside of the package, and data that would whiten themselves."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.runs import NamedPart, build_data
from tacit.tasks import Dataset, build_features, datasets
from tacit.tasks.features import Feature, cache, features

_CODE = """
import numpy as np
from tacit.tasks import Dataset
def load():
    x = np.random.default_rng(5).random((40, 1, 12, 12)).astype("float32")
    return Dataset.from_arrays(x, np.arange(40) % 2, labels=[0, 1], name="patients")
"""


class _BatchCentred(Feature):
    """Not private: it subtracts the mean of the batch."""

    def __init__(self, inputs: tuple[int, ...]) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=0) + x.square()).flatten(1)


@pytest.fixture
def registered() -> Iterator[None]:
    def load() -> Dataset:
        x = np.random.default_rng(5).random((40, 1, 12, 12)).astype("float32")
        return Dataset.from_arrays(x, np.arange(40) % 2, labels=[0, 1], name="patients")

    datasets.register("own-hospital")(load)
    features.register("batch-centred")(_BatchCentred)
    yield
    del datasets._makers["own-hospital"], features._makers["batch-centred"]


def _data(name: str, **keys: object) -> Dataset:
    return build_data(NamedPart.model_validate({"name": name, "features": ["gradients"], **keys}), "add-remove")


@pytest.mark.usefixtures("registered")
def test_features_of_a_registered_data_set_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    _data("own-hospital")
    assert list(tmp_path.iterdir()) == []
    _data("digits", limit=20)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("registered")
def test_data_do_not_whiten_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "mine.py"
    code.write_text(_CODE)
    monkeypatch.chdir(tmp_path)
    for name, public in (("own-hospital", "own-hospital"), (f"{code}:load", "mine.py:load")):
        with pytest.raises(TacitError, match="names the data that are trained on"):
            _data(name, whiten=public)


@pytest.mark.usefixtures("registered")
def test_a_registered_feature_gets_one_record_at_a_time_and_is_an_assumption() -> None:
    x = torch.rand(6, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 2
    target = Dataset.from_arrays(np.zeros((2, 1)), [0, 1], test=0.0, labels=[0, 1]).target
    made = build_features(["batch-centred"], Dataset("own", x, y, x[:1], y[:1], target))
    other = torch.cat([x[:1], 9 - 5 * x[1:]])
    torch.testing.assert_close(made.apply_to(x)[0], made.apply_to(other)[0], atol=1e-6, rtol=0)
    assert "assuming that batch-centred was made without them" in made.description.sentence
    assert made.description.sources
