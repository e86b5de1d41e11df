"""The papers' claims: the numbers of the table in docs/claims.md, and the attacks on them."""

import json

import pytest

from tacit.audit import paper_claims
from tacit.audit.refutations import refute_dp_norm

EXPECTED = [
    ("Dyn-D²P", 1.0, 1.0, 3.03),
    ("LT-ADMM-DP", 19.6, 25.56, 708.6),
    ("LT-ADMM-DP", 19.6, 25.56, 2.23),
    ("DP-Norm", 1.0, 1.0, 0.639),
    ("DP-Norm", 0.5, 0.5, 0.305),
    ("DP-Norm, n in the steps", 1.0, 1.0, None),
    ("PPGL", 50.0, 50.0, 6.82),
    ("PPGL", 50.0, 50.0, 4.54),
    ("DPPS / PartPSP", 5000.0, 5000.0, None),
]


def test_every_number_of_the_table():
    rows = paper_claims()
    assert [row.paper for row in rows] == [paper for paper, *_ in EXPECTED]
    for row, (_, printed, formula, guaranteed) in zip(rows, EXPECTED, strict=True):
        assert row.printed == printed
        assert row.formula == pytest.approx(formula, rel=1e-3)
        assert row.guaranteed == (None if guaranteed is None else pytest.approx(guaranteed, rel=5e-3))


def test_the_claims_command_prints_the_table(tacit):
    table = tacit("claims")
    assert table.code == 0, table.err
    assert len(table.out.splitlines()) == 1 + len(EXPECTED)
    assert "708.7" in table.out
    rows = json.loads(tacit("claims", "--json").out)["claims"]
    assert [row["paper"] for row in rows] == [paper for paper, *_ in EXPECTED]


@pytest.mark.full
def test_the_same_noise_in_the_local_steps_breaks_the_claim_of_dp_norm():
    """Without that noise, or with fresh noise, the same attack finds nothing: the noise cancels."""
    found = {inner: refute_dp_norm(5_000, 50, inner).result for inner in ("none", "fresh", "same")}
    assert all(each.claimed == pytest.approx(1.0) for each in found.values())
    assert (found["same"].guaranteed, found["same"].refuted) == (None, True)
    assert found["same"].lower > 1.2
    assert found["none"].lower == found["fresh"].lower == 0


def test_the_audit_command(tacit):
    arguments = ("audit", "--trials", "400", "--rounds", "2", "--set", "batch.size=all")
    ended = tacit(*arguments, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["holds"]
    assert found["lower"] <= found["guaranteed"]
    assert "This attack does not break the guarantee." in tacit(*arguments).out
    assert tacit("audit", "--trials", "4").code == 2
