"""A random table that looks like a hospital's export: text, dates, missing and wrong cells, identifiers."""

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import TacitError
from tacit.tasks.data.dataset import Dataset, datasets

if TYPE_CHECKING:
    import pandas as pd

_WARDS = ("surgery", "cardiology", "oncology", "geriatrics", "maternity")
_DIAGNOSES = ("fracture", "infarction", "pneumonia", "tumour", "birth", "other")
_NOTES = (
    "stable, no complaints",
    'patient said: "better today"',
    "transferred; see letter",
    "",
    "allergic to penicillin, mild",
    "Überweisung an Hausarzt",
)
_GARBAGE = ("n/a", "?", "unknown", "ERR", "-", "999999999", "see notes")


def hospital_patients(rows: int, seed: int) -> "pd.DataFrame":
    """Return the table, without wrong cells."""
    import pandas as pd  # slow to import

    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(58, 20, rows), 0, 105)
    ward, diagnosis = rng.integers(0, len(_WARDS), rows), rng.integers(0, len(_DIAGNOSES), rows)
    crp = np.minimum(rng.lognormal(2.0 + 0.4 * (diagnosis == 2) + 0.5 * (diagnosis == 3), 1.1), 500)
    bmi = np.clip(rng.normal(26, 5, rows), 12, 60)
    smoker, earlier = rng.random(rows) < 0.24, rng.poisson(0.3 + age / 90)
    frailty = 0.035 * (age - 58) + 0.45 * (np.log1p(crp) - 2.1) + 0.5 * earlier + 0.4 * smoker
    frailty += 0.6 * (ward == 3) + 0.8 * (diagnosis == 3) - 1.2 * (ward == 4)
    readmitted = rng.random(rows) < 1 / (1 + np.exp(3.55 - 1.2 * frailty))
    stay = np.clip(np.exp(1.7 + 0.35 * frailty + rng.normal(0, 0.35, rows)), 0.5, 60)
    visits = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 6 * 365, rows), unit="D")
    return pd.DataFrame(
        {
            "patient_id": [f"P{number:07d}" for number in rng.permutation(10_000_000)[:rows]],
            "surname": rng.choice(["Meyer", "O'Neil", "Núñez", "Smith, jr.", "Li"], rows),
            "visit": visits.strftime("%Y-%m-%d"),
            "age": age.round().astype(int).astype(str),
            "sex": rng.choice(["F", "M"], rows),
            "ward": np.array(_WARDS)[ward],
            "diagnosis": np.array(_DIAGNOSES)[diagnosis],
            "crp": crp.round(1).astype(str),
            "bmi": bmi.round(1).astype(str),
            "smoker": np.where(smoker, "yes", "no"),
            "earlier_visits": earlier.astype(str),
            "notes": rng.choice(_NOTES, rows),
            "stay": stay.round(1).astype(str),
            "readmitted": np.where(readmitted, "yes", "no"),
        }
    )


def with_wrong_cells(table: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Return the table with empty and wrong cells, as real exports have them. Identifiers and targets stay."""
    rng = np.random.default_rng(seed + 1)
    table = table.copy()
    for name in table.columns.difference(["patient_id", "surname", "notes", "stay", "readmitted"], sort=False):
        share = 0.15 if name in ("crp", "bmi") else 0.02
        column = table[name].to_numpy(object)
        column[rng.random(len(table)) < share] = ""
        wrong = rng.random(len(table)) < 0.004
        column[wrong] = rng.choice(_GARBAGE, int(wrong.sum()))
        table[name] = column
    return table


def hospital_table(rows: int, seed: int) -> "pd.DataFrame":
    """Return the table with its wrong cells."""
    return with_wrong_cells(hospital_patients(rows, seed), seed)


COLUMNS = {
    **dict.fromkeys(("patient_id", "surname", "notes", "stay"), "drop"),
    "visit": {"date": ["2019-01-01", "2025-12-31"]},
    "age": {"range": [0, 110]},
    "sex": {"categories": ["F", "M"]},
    "ward": {"categories": list(_WARDS)},
    "diagnosis": {"categories": list(_DIAGNOSES)},
    "crp": {"range": [0, 500], "scale": "log"},
    "bmi": {"range": [10, 60]},
    "smoker": {"categories": ["no", "yes"]},
    "earlier_visits": {"range": [0, 20], "scale": "log"},
    "readmitted": {"label": ["no", "yes"]},
}
"""The public declaration of the columns, as in examples/hospital.toml."""


@datasets.register("hospital")
def hospital(records: int = 20_000, test_records: int = 20_000, seed: int = 0) -> Dataset:
    """Random patients in a messy table: 11 columns with missing and wrong cells; is the patient readmitted?

    Training and test records are drawn separately, with the seeds `seed` and `seed` + 1000.

    Args:
        records: Number of training records.
        test_records: Number of test records.
        seed: Seed of the generator.

    >>> hospital(records=500, test_records=100)
    Dataset hospital: 500 records of (29,) in 2 classes, 100 for testing
    """
    for name, value in (("records", records), ("test_records", test_records)):
        if value < 1:
            raise TacitError(f"data set hospital: {name} must be at least 1, got {value}")
    table, test = hospital_table(records, seed), hospital_table(test_records, seed + 1000)
    return Dataset.from_frame(table, COLUMNS, "indicator", test, name="hospital")
