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
# # Learn a graph from private signals
#
# Five clients measure the same 20 sensors. Sensors that are connected have similar values. Each client learns which
# ones are connected, and all agree on what they have in common (PPGL). The measurements stay where they are.
#
# The notebook takes about 20 seconds.

# %% tags=["parameters"]
signals = 1000
epsilons = [1.0, 2.0, 4.0, 8.0, 16.0]

# %% [markdown]
# ## Signals with known graphs
#
# The signals are synthetic, so the learned graphs can be compared with the true ones. Half of the edges are common to
# all clients.

# %%
from tacit.graph_learning import GraphLearner, scores, synthetic

data = synthetic.rbf(vertices=20, clients=5, signals=signals, q=0.5, seed=0)
[table.shape for table in data.signals]

# %% [markdown]
# ## Without noise

# %%
exact = GraphLearner().fit(data.signals)
scores.edge_scores(scores.triangles(exact.graphs_), data.graphs)

# %% [markdown]
# `f1` combines precision (learned edges that are true) and recall (true edges that are learned). These graphs are not
# private: treat them like the signals.
#
# ## With privacy
#
# Each signal is scaled to norm 1. Each client adds noise to one summary of its signals, their Gram matrix. All later
# steps use only the noised summary, so they cost nothing more.

# %%
private = GraphLearner(epsilon=8.0, delta=1e-5, seed=0).fit(data.signals)
print(scores.edge_scores(scores.triangles(private.graphs_), data.graphs))
print(private.privacy_.sentence())

# %% [markdown]
# ## The consensus
#
# The common part of the graphs, without and with noise. Solid edges are in the true consensus.

# %%
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

rows, columns = np.triu_indices(20, 1)
true = {(int(i), int(j)) for i, j, w in zip(rows, columns, data.consensus, strict=True) if w > 0}


def draw(learner, axes, title):
    graph = learner.to_networkx()
    names = {name: number for number, name in enumerate(graph)}
    graph = nx.relabel_nodes(graph, names)
    right = [edge for edge in graph.edges if tuple(sorted(edge)) in true]
    wrong = [edge for edge in graph.edges if tuple(sorted(edge)) not in true]
    nx.draw_networkx_nodes(graph, places, node_size=60, node_color="#444444", ax=axes)
    nx.draw_networkx_edges(graph, places, right, edge_color="#1f6f8b", ax=axes)
    nx.draw_networkx_edges(graph, places, wrong, edge_color="#c8553d", style="dashed", ax=axes)
    axes.set_title(f"{title}: {len(right)} of {len(true)} edges, {len(wrong)} wrong")
    axes.axis("off")


places = nx.circular_layout(range(20))
figure, (left, right_axes) = plt.subplots(1, 2, figsize=(11, 4.5))
draw(exact, left, "without noise")
draw(private, right_axes, "ε = 8")

# %% [markdown]
# ## Accuracy against ε

# %%
found = {}
for epsilon in epsilons:
    learner = GraphLearner(epsilon=epsilon, delta=1e-5, seed=0).fit(data.signals)
    found[epsilon] = scores.edge_scores(scores.triangles(learner.graphs_), data.graphs).f1
figure, axes = plt.subplots(figsize=(5, 3))
axes.plot(list(found), list(found.values()), marker="o")
axes.axhline(scores.edge_scores(scores.triangles(exact.graphs_), data.graphs).f1, color="grey", linestyle="--")
axes.set(xscale="log", xlabel="guaranteed (simulated) ε", ylabel="F1 of the edges")
found

# %% [markdown]
# The dashed line is the result without noise. More signals per client move the curve to the left: the noise shrinks
# with the number of signals.
