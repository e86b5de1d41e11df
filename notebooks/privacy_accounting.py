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
# # Read a privacy statement
#
# A statement such as "ε = 2.99, δ = 10⁻⁴ per record (add or remove one), against an eavesdropper on every link" has
# five parts, and each of them matters. This notebook takes them apart, and shows how ε adds up.
#
# It takes about 20 seconds.

# %% tags=["parameters"]
rounds = 50

# %%
import tacit

run = tacit.train(algorithm="dyn-d2p", lr=0.5, nodes=10, rounds=rounds, epsilon=3.0, delta=1e-4)
print(run.privacy.sentence())

# %%
statement = run.privacy.as_dict()
{key: statement[key] for key in ("guaranteed", "claimed", "delta", "unit", "relation", "adversary", "simulated")}

# %% [markdown]
# ## What ε means for an attack
#
# Somebody tests whether one person's record was used. The test has false alarms (the record was not used, but the test
# says so) and detections. (ε, δ) bounds how many detections are possible for each rate of false alarms.

# %%
import matplotlib.pyplot as plt
import numpy as np


def detections(false_alarms, epsilon, delta):
    rest = 1 - delta - np.exp(epsilon) * false_alarms
    other = np.exp(-epsilon) * (1 - delta - false_alarms)
    return 1 - np.maximum(0, np.maximum(rest, other))


alarms = np.linspace(0, 1, 400)
figure, axes = plt.subplots(figsize=(5, 4))
for epsilon in (0.1, 1.0, 3.0, 8.0):
    axes.plot(alarms, detections(alarms, epsilon, 1e-4), label=f"ε = {epsilon:g}")
axes.plot(alarms, alarms, color="grey", linestyle="--", label="guessing")
axes.set(xlabel="false alarms", ylabel="detections at most")
axes.legend()
{f"ε = {epsilon:g}": f"{detections(0.01, epsilon, 1e-4):.1%}" for epsilon in (0.1, 1.0, 3.0, 8.0)}

# %% [markdown]
# The last line has the detections at 1 % false alarms. At ε = 1 they are below 3 %. At ε = 8 the bound excludes
# nothing.
#
# ## Guaranteed and claimed
#
# The settings of a paper: noise multiplier 0.4395, one of 2,500 records per step, 3,500 steps. The paper states ε = 1.

# %%
verdict = tacit.claims.check(noise_multiplier=0.4395, sample_rate=0.0004, steps=3500, delta=1e-4, claimed=1)
print(verdict)

# %% [markdown]
# Two numbers decide this. The guaranteed ε is an upper bound on the exact ε. The other number is a lower bound on it. A
# claim below the lower bound is wrong.
#
# ## How ε adds up
#
# Four runs of ε = 1 do not cost ε = 4. All releases are accounted for together.

# %%
from tacit.claims import account_for_noise, sampling_of_steps

sampling = sampling_of_steps("poisson", 0.01)
one = account_for_noise("gaussian", sampling, 1000, 1e-5, epsilon=1.0)
for runs in (1, 2, 4, 16):
    together = account_for_noise("gaussian", sampling, 1000 * runs, 1e-5, noise_multiplier=one.noise_multiplier)
    print(f"{runs:2} × ε = 1: together ε = {together.privacy.guaranteed:.2f}")

# %% [markdown]
# ## Sampling helps
#
# If each step uses a random 1 % of the records, an observer does not know whether a record took part. The same noise
# without sampling costs far more.

# %%
for kind, rate in (("poisson", 0.01), ("poisson", 0.1), ("none", 1.0)):
    spent = account_for_noise("gaussian", sampling_of_steps(kind, rate), 1000, 1e-5, noise_multiplier=2.0)
    print(f"{rate:4.0%} of the records per step: ε = {spent.privacy.guaranteed:.2f}")

# %% [markdown]
# ## Against whom
#
# The stated ε is for the strongest adversary, who reads every message. Others see less. `bound_against` computes the
# bound for each of them. If no better bound is proven, it is the same.

# %%
from tacit.privacy import Coalition, Eavesdropper, ModelHolder
from tacit.threats import bound_against

pairs = tacit.train(algorithm="const-d2p", nodes=8, rounds=rounds, epsilon=3.0, delta=1e-4)
adversaries = {
    "reads every message": Eavesdropper(),
    "controls nodes 0 and 3": Coalition((0, 3)),
    "has the mean of the final models": ModelHolder(),
}
for name, adversary in adversaries.items():
    print(f"{name}: ε = {bound_against(pairs, adversary).epsilon:.3f}")
