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

from tacit.tasks.data.hospital import hospital_table


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a table that looks like a hospital's export.")
    parser.add_argument("out", type=Path, help="the csv file to write")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    table = hospital_table(arguments.rows, arguments.seed)
    table.to_csv(arguments.out, index=False)
    share = (table["readmitted"] == "yes").mean()
    print(f"{arguments.out}: {len(table)} patients, {share:.1%} readmitted")


if __name__ == "__main__":
    main()
