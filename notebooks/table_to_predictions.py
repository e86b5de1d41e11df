# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a table to predictions
#
# Four hospitals predict readmission from a table with text, dates, empty cells and wrong cells. The usual preparation
# computes means, ranges and categories from the records. That reveals something about each record. Here public facts
# are *declared* instead.
#
# The notebook takes about 20 seconds. `docs/tables.md` describes all declarations.

# %% tags=["parameters"]
rounds = 100
patients = 12_000

# %% [markdown]
# ## A table, as it comes from an export

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
age = np.clip(rng.normal(58, 20, patients), 0, 105).round()
crp = rng.lognormal(2.2, 1.0, patients).round(1)
visits = rng.poisson(0.3 + age / 90)
readmitted = rng.random(patients) < 1 / (1 + np.exp(4.2 - 0.04 * (age - 58) - 0.5 * np.log1p(crp) - 0.6 * visits))
frame = pd.DataFrame(
    {
        "patient_id": [f"P{number:06d}" for number in range(patients)],
        "hospital": rng.choice(["north", "east", "south", "west"], patients),
        "visit": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, patients), "D")).astype(str),
        "age": age.astype(int).astype(str),
        "sex": rng.choice(["F", "M"], patients),
        "crp": crp.astype(str),
        "earlier_visits": visits.astype(str),
        "readmitted": np.where(readmitted, "yes", "no"),
    }
)
frame.loc[rng.random(patients) < 0.15, "crp"] = ""
frame.loc[rng.random(patients) < 0.01, "age"] = "unknown"
frame.head()

# %% [markdown]
# ## Declare the columns
#
# All numbers below are public knowledge: nobody is older than 110, and a laboratory reports CRP up to 500. A cell that
# is empty or not valid counts as missing, with a column that marks it. A column that is not declared is refused, so
# that an identifier is never used by accident.

# %%
columns = {
    "patient_id": "drop",
    "hospital": {"categories": ["north", "east", "south", "west"]},
    "visit": {"date": ["2019-01-01", "2025-12-31"]},
    "age": {"range": [0, 110]},
    "sex": {"categories": ["F", "M"]},
    "crp": {"range": [0, 500], "scale": "log"},
    "earlier_visits": {"range": [0, 20], "scale": "log"},
    "readmitted": {"label": ["no", "yes"]},
}

# %% [markdown]
# ## Train
#
# Each hospital is one node: `sharding` has the rows of each. The last 2,000 patients are kept for predictions, and the
# 2,000 before them measure the model.

# %%
import tempfile
from pathlib import Path

import tacit

known, tests, new = frame.iloc[:-4000], frame.iloc[-4000:-2000], frame.iloc[-2000:]
data = tacit.Dataset.from_frame(known, columns, missing="indicator", test=tests)
rows = [np.flatnonzero(known["hospital"] == name) for name in columns["hospital"]["categories"]]
folder = Path(tempfile.mkdtemp()) / "readmission"
run = tacit.train(
    "logistic",
    data,
    sharding=rows,
    algorithm="const-d2p",
    lr=1.0,
    graph="complete",
    nodes=4,
    rounds=rounds,
    batch=256,
    epsilon=3.0,
    delta=1e-5,
    out=folder,
)
print(run.utility.headline)
print(run.privacy.sentence())

# %% [markdown]
# Most patients are not readmitted, so predicting "no" for everybody is nearly as accurate as the model. The area under
# the ROC curve shows what was learnt: 0.5 is a guess.

# %%
axes = run.plot(metric="roc_auc")
# %% [markdown]
# ## Predict
#
# The folder of the run contains the model with its columns. It is verified before it is used.

# %%
model = tacit.load(folder)
probability = model.predict_proba(new)[:, 1]
predictions = new[["patient_id", "age", "crp", "earlier_visits", "readmitted"]].assign(probability=probability.round(3))
predictions.sort_values("probability", ascending=False).head(8)

# %% [markdown]
# Among the 200 patients with the highest probability, more are readmitted than among all:

# %%
highest = predictions.nlargest(200, "probability")
shares = {"all": (new["readmitted"] == "yes").mean(), "highest 200": (highest["readmitted"] == "yes").mean()}
print({name: f"{share:.1%}" for name, share in shares.items()})

# %% [markdown]
# ε is for the patients in the training table. It does not protect those whose readmission is predicted.
