"""Audits attack the statistics before round 0 as well as the gradients."""

import numpy as np
import pytest
import torch

from tacit.audit import audit
from tacit.audit.canary_statistics import with_private_columns, worst_records
from tacit.audit.canary_task import CANARY_SCALE, with_orthogonal
from tacit.privacy import epsilon_to_mu
from tacit.runs import Config
from tacit.tasks import ColumnHistogram, Dataset, Gram, Mean, Target, statistics
from tacit.tasks.statistics.base import RecordSum

CANARY, OPPOSITE = 1, 2


def config(shares, *, batch=None, **privacy):
    target = {"epsilon": 3.0, "delta": 1e-5, "shares": shares, **privacy}
    return Config.parse({"algorithm": "const-d2p", "batch": batch or {"size": "all"}, "privacy": target})


def canaries():
    x = torch.tensor([0.0, CANARY_SCALE, -CANARY_SCALE, 0.0])[:, None] * torch.tensor([0.8, 0.6, 0.0])
    y = torch.tensor([0, 1, 0, 1])
    return Dataset("canaries", x, y, x, y, Target.of_classes(2))


@pytest.mark.parametrize("statistic", [Mean(), Gram(), ColumnHistogram(2)], ids=lambda each: each.name)
@pytest.mark.parametrize(("relation", "other"), [("add-remove", 0), ("replace-one", OPPOSITE)])
def test_canaries_move_every_statistic_as_far_as_its_sensitivity(statistic, relation, other):
    data = with_private_columns(worst_records(canaries(), statistic, relation))
    one, alternative = (statistic.totals(data, [np.array([record])])[0] for record in (CANARY, other))
    assert float((one - alternative).norm()) == pytest.approx(statistic.sensitivity(relation), rel=1e-4)


def test_orthogonal_records_have_the_same_length():
    x = with_orthogonal(canaries().x)
    assert float(x[CANARY] @ x[OPPOSITE]) == 0.0
    assert float(x[OPPOSITE].norm()) == pytest.approx(CANARY_SCALE)


@pytest.mark.parametrize(
    ("shares", "more"),
    [
        ({"mean": 0.5, "gram": 0.45, "gradients": 0.05}, {}),
        ({"mean": 0.5, "gram": 0.45, "gradients": 0.05}, {"batch": {"size": "all", "relation": "replace-one"}}),
        ({"gram": 0.95, "gradients": 0.05}, {"noise": "paired", "colluders": 1}),
        ({"gram": 0.7, "gradients": 0.3}, {"batch": {"size": 32}}),
    ],
)
def test_the_guarantee_holds_and_the_statistics_are_attacked(shares, more):
    """The gradients alone would allow a separation of about √share of μ."""
    found = audit(config(shares, **more), trials=2000, rounds=2)
    assert found.holds
    mu = epsilon_to_mu(found.guaranteed, found.delta)
    assert 0.6 * mu < found.separation < 1.15 * mu


def test_ranges_of_columns_are_attacked(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,y\n" + "".join(f"{k / 300},{k % 2}\n" for k in range(300)))
    columns = {"a": {"range": "private", "within": [0, 1]}, "y": {"label": ["0", "1"]}}
    table = config({"ranges": 0.95, "gradients": 0.05}).as_dict()
    table["data"] = {"name": "csv", "path": str(path), "columns": columns}
    found = audit(Config.parse(table), trials=2000, rounds=2)
    assert found.holds
    assert found.separation > 0.6 * epsilon_to_mu(found.guaranteed, found.delta)


@pytest.mark.parametrize("name", ["mean", "gram"])
def test_a_statistic_with_a_third_of_its_sensitivity_is_found(name, monkeypatch):
    kind = statistics.registered(name)
    assert issubclass(kind, RecordSum)
    finish = kind.finish
    monkeypatch.setattr(kind, "finish", lambda self, total: 3 * finish(self, total))
    found = audit(config({name: 0.5, "gradients": 0.5}), trials=4000, rounds=2)
    assert not found.holds
