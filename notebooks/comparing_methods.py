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
# # Compare methods at the same guaranteed ε
#
# Papers compare methods at the ε that each of them *claims*. The formulas differ, so the same claimed ε can mean very
# different noise. `tacit.compare` gives every method the same *guaranteed* ε: an upper bound from one accountant.
#
# The notebook takes about a minute.

# %% tags=["parameters"]
rounds = 60
seeds = 3

# %% [markdown]
# ## Run
#
# Three private methods and one without noise, on the digits, with a logistic model at eight nodes on a ring. All have
# the same learning rate here. For a paper, tune each method, and count the tuning (`tacit.sweep`).

# %%
import tacit

table = tacit.compare(
    ["dyn-d2p", "const-d2p", "dp-sgd", "sgp"],
    data="digits",
    model="logistic",
    graph="ring",
    nodes=8,
    rounds=rounds,
    epsilon=2.0,
    seeds=seeds,
    settings={"algorithm.lr": 0.5},
)
table[["algorithm", "accuracy", "accuracy_std", "epsilon_guaranteed", "epsilon_claimed"]]

# %%
print(table.attrs["statement"])
if table.attrs.get("note"):
    print(table.attrs["note"])

# %% [markdown]
# `epsilon_guaranteed` is the same for all private methods, up to rounding. `epsilon_claimed` is what each paper would
# have printed for the same noise. SGP adds no noise: it has no ε, and shows what is possible without privacy.
#
# ## Accuracy against ε spent
#
# Each curve shows one method; the band is one standard deviation over the seeds. A method that stops early has spent
# less.

# %%
axes = tacit.plot_comparison(table, x="epsilon")
# %%
axes = tacit.plot_comparison(table, x="round")
# %% [markdown]
# ## Your own settings
#
# Methods can be objects with the hyperparameters that you choose, under names that you choose.

# %%
from tacit.algorithms import const_d2p

steps = {"small steps": const_d2p(lr=0.1), "large steps": const_d2p(lr=1.0)}
own = tacit.compare(steps, data="digits", model="logistic", nodes=8, rounds=rounds, epsilon=2.0, seeds=seeds)
own[["accuracy", "accuracy_std"]]

# %% [markdown]
# ## A table for a paper

# %%
print(tacit.tables.latex(table, label="tab:methods"))
