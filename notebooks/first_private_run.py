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
# # A first private run
#
# Ten organisations train one model to recognise digits. Nobody sends a record. Each round, a node computes a gradient
# from its own records, adds noise, and averages its model with those of its neighbours.
#
# Everything here runs on your machine, so it is a *simulation*: the noise comes from a seed, and it protects nobody. It
# shows which accuracy a real network would reach at which privacy. The whole notebook takes about half a minute.

# %% tags=["parameters"]
rounds = 100
epsilons = [0.5, 1.0, 2.0, 4.0, 8.0]

# %% [markdown]
# ## Train
#
# `epsilon` is the privacy to guarantee. Tacit computes how much noise that needs, and adds it.

# %%
import tacit

run = tacit.train(data="digits", algorithm="dyn-d2p", lr=0.5, nodes=10, rounds=rounds, epsilon=3.0, delta=1e-4)
run.utility.headline

# %% [markdown]
# The *trivial predictor* always predicts the most frequent class. A model is useful only if it is better than that.
#
# ## The privacy statement

# %%
print(run.privacy.sentence())

# %% [markdown]
# - **ε and δ**: adding or removing any one record changes the probability of any outcome by at most a factor $e^ε$,
#   plus δ.
# - **guaranteed** means a proven upper bound, computed from what the code released. **claimed** is the number that the
#   paper's formula gives; it can be smaller or larger.
# - **against an eavesdropper on every link**: even someone who reads every message cannot do better.
# - **simulated**: the noise was derived from a seed. Real noise needs `noise="secret"`, or sites.
#
# ## The history
#
# One row per evaluation. ε grows as more is released.

# %%
run.history[["round", "accuracy", "loss", "guaranteed", "claimed"]].tail()

# %%
axes = run.plot()
# %% [markdown]
# ## How much accuracy does privacy cost?
#
# The same run at several ε. The last row has no noise and no privacy.

# %%
import pandas as pd

settings = {"data": "digits", "lr": 0.5, "nodes": 10, "rounds": rounds}
rows = []
for epsilon in epsilons:
    private = tacit.train(algorithm="dyn-d2p", epsilon=epsilon, delta=1e-4, **settings)
    rows.append({"ε": f"{private.privacy.guaranteed:.2f}", "accuracy": private.history["accuracy"].iloc[-1]})
without = tacit.train(algorithm="sgp", **settings)
rows.append({"ε": "no privacy", "accuracy": without.history["accuracy"].iloc[-1]})
table = pd.DataFrame(rows).set_index("ε")
table

# %% [markdown]
# These nodes have about 140 records each, which is few. With more records per node, each record matters less, and the
# same accuracy is possible at a smaller ε.
#
# ## Keep the run
#
# With `out`, the run is saved with its ledger, its models and a report. `tacit.load` verifies it: ε is computed once
# more from the ledger and compared with everything else in the folder.

# %%
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp()) / "first"
saved = tacit.train(data="digits", lr=0.5, nodes=10, rounds=rounds, epsilon=3.0, delta=1e-4, out=folder)
loaded = tacit.load(folder)
print(sorted(path.name for path in folder.iterdir()))
print(loaded.privacy.guaranteed == saved.privacy.guaranteed)
