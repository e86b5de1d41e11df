"""Runs with features: predictions, exports, verification, records and shards."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tacit
from tacit.errors import TacitError
from tacit.runs import Config, UserParts, export_model, from_config, verify
from tacit.runs.run_facts import record_digests
from tests.runs.cases import interrupt_after


def _config(**data: Any) -> Config:
    table = {"rounds": 3, "data": {"name": "digits", "limit": 200, **data}, "graph": {"name": "ring", "nodes": 4}}
    return Config.parse({**table, "algorithm": {"name": "const-d2p"}, "privacy": {"epsilon": 3.0, "delta": 1e-3}})


FEATURES = {"features": ["gradients", "scattering"], "whiten": "shapes", "rank": 30}


def test_predictions_and_exports_take_raw_records(tmp_path: Path) -> None:
    run = from_config(_config(**FEATURES), out=tmp_path / "run").go()
    raw, labels = run.task.data.raw[1], run.task.data.test_y.numpy()
    assert run.task.data.inputs == (30,)
    accuracy = run.result()["accuracy"]
    assert np.mean(run.predict(raw) == labels) == pytest.approx(accuracy)
    loaded = tacit.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(raw), run.predict_proba(raw))
    with pytest.raises(TacitError, match="shape"):
        loaded.predict(run.task.data.test_x)
    export_model(loaded.trained(), tmp_path / "model.pt", "torchscript")
    found = torch.jit.load(str(tmp_path / "model.pt"))(raw)  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(found.numpy(), run.predict_proba(raw), atol=1e-5)
    export_model(loaded.trained(), tmp_path / "model.onnx", "onnx")
    from onnx.reference import ReferenceEvaluator

    with np.errstate(divide="ignore"):
        (values,) = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"features": raw[:3].numpy()})
    np.testing.assert_allclose(values, run.predict_proba(raw[:3]), atol=1e-5)


def test_the_result_and_the_statement_say_what_shaped_the_features(tmp_path: Path) -> None:
    run = from_config(_config(**FEATURES), out=tmp_path / "run").go()
    assert run.result()["features"]["sentence"].startswith("No record shaped the features: ")
    assert "features" not in from_config(_config()).go().result()
    verify(tmp_path / "run").require()


def test_features_change_neither_shards_nor_the_digests_of_records() -> None:
    plain, mapped = from_config(_config()), from_config(_config(**FEATURES))
    digests = record_digests(mapped.task)
    assert digests.pop("features") == mapped.task.data.features.description.digest  # type: ignore[union-attr]
    assert record_digests(plain.task) == digests
    for one, other in zip(plain.task.shards, mapped.task.shards, strict=True):
        np.testing.assert_array_equal(one, other)


def test_verification_does_not_execute_features_of_a_folder(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text("def half(record):\n    return record.flatten() / 2\n")
    run = from_config(_config(features=[f"{code}:half"]), out=tmp_path / "run").go()
    assert "assuming that" in run.result()["features"]["sentence"]
    code.write_text("raise SystemExit('executed')\n")
    found = verify(tmp_path / "run")
    assert any("not executed" in each for each in found.unchecked)
    with pytest.raises(TacitError, match="is not part of Tacit"):
        tacit.load(tmp_path / "run").predict(run.task.data.raw[1])


def test_keys_of_features_are_checked() -> None:
    with pytest.raises(TacitError, match=r"only with data\.features"):
        from_config(_config(whiten="shapes"))
    with pytest.raises(TacitError, match='did you mean "features"'):
        from_config(_config(feature=["gradients"]))


def test_a_run_is_not_resumed_with_other_features(tmp_path: Path) -> None:
    first, other = (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 5)) for _ in range(2))
    stop = interrupt_after(1)
    assert from_config(_config(), UserParts(features=[first]), out=tmp_path / "run", observers=[stop]).go().t == 1
    with pytest.raises(TacitError, match="the features differ from those of the run"):
        from_config(_config(), UserParts(features=[other]), out=tmp_path / "run", resume=True)
    assert from_config(_config(), UserParts(features=[first]), out=tmp_path / "run", resume=True).go().t == 3
