"""Write a table that looks like a hospital's export: text, dates, missing and wrong cells, identifiers.

    python examples/hospital.py patients.csv                       # 20,000 rows: about 2 s
    tacit inspect patients.csv --label readmitted                  # a draft of [data.columns] from the column names
    tacit train examples/hospital.toml                             # the completed draft: about 5 s
    tacit predict runs/hospital patients.csv --keep patient_id --proba --out predictions.csv
    tacit train examples/hospital-stay.toml                        # the length of stay, from the same table

The patients are random. About 12 % are readmitted (`readmitted`), and `stay` is the length of stay in days. Both depend
on age, laboratory values, ward and diagnosis, so there is something to learn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

WARDS = ("surgery", "cardiology", "oncology", "geriatrics", "maternity")
DIAGNOSES = ("fracture", "infarction", "pneumonia", "tumour", "birth", "other")
NOTES = (
    "stable, no complaints",
    'patient said: "better today"',
    "transferred; see letter",
    "",
    "allergic to penicillin, mild",
    "Überweisung an Hausarzt",
)
GARBAGE = ("n/a", "?", "unknown", "ERR", "-", "999999999", "see notes")


def patients(rows: int, seed: int) -> pd.DataFrame:
    """Return the table, without wrong cells."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(58, 20, rows), 0, 105)
    ward, diagnosis = rng.integers(0, len(WARDS), rows), rng.integers(0, len(DIAGNOSES), rows)
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
            "ward": np.array(WARDS)[ward],
            "diagnosis": np.array(DIAGNOSES)[diagnosis],
            "crp": crp.round(1).astype(str),
            "bmi": bmi.round(1).astype(str),
            "smoker": np.where(smoker, "yes", "no"),
            "earlier_visits": earlier.astype(str),
            "notes": rng.choice(NOTES, rows),
            "stay": stay.round(1).astype(str),
            "readmitted": np.where(readmitted, "yes", "no"),
        }
    )


def with_wrong_cells(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the table with empty and wrong cells, as real exports have them. Identifiers and targets stay."""
    rng = np.random.default_rng(seed + 1)
    table = table.copy()
    for name in table.columns.difference(["patient_id", "surname", "notes", "stay", "readmitted"], sort=False):
        share = 0.15 if name in ("crp", "bmi") else 0.02
        column = table[name].to_numpy(object)
        column[rng.random(len(table)) < share] = ""
        wrong = rng.random(len(table)) < 0.004
        column[wrong] = rng.choice(GARBAGE, int(wrong.sum()))
        table[name] = column
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a table that looks like a hospital's export.")
    parser.add_argument("out", type=Path, help="the csv file to write")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    table = with_wrong_cells(patients(arguments.rows, arguments.seed), arguments.seed)
    table.to_csv(arguments.out, index=False)
    share = (table["readmitted"] == "yes").mean()
    print(f"{arguments.out}: {len(table)} patients, {share:.1%} readmitted")


if __name__ == "__main__":
    main()
