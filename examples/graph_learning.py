"""Learn a graph from signals that stay where they are: five clients, one graph each, and what they have in common.

    python examples/graph_learning.py                              # about 5 s

Each client has 1,000 measurements of the same 20 sensors. Sensors that are connected have similar values, and the graph
shows which they are. A client does not send its measurements. It releases one noised summary of them, so that ε holds
for each measurement. The signals are synthetic, so the learned edges can be compared with the true ones.
"""

from __future__ import annotations

from tacit.graph_learning import GraphLearner, scores, synthetic


def main(signals: int = 1000, epsilons: tuple[float | None, ...] = (None, 8.0, 4.0, 1.0)) -> dict[float | None, float]:
    data = synthetic.rbf(vertices=20, clients=5, signals=signals, q=0.5, seed=0)
    found = {}
    for epsilon in epsilons:
        private = {} if epsilon is None else {"epsilon": epsilon, "delta": 1e-5, "seed": 0}
        learner = GraphLearner(**private).fit(data.signals)
        edges = scores.edge_scores(scores.triangles(learner.graphs_), data.graphs)
        consensus = learner.to_networkx()  # a networkx graph; client=2 gives the graph of client 2
        found[epsilon] = edges.f1
        noise = "without noise" if epsilon is None else f"ε = {epsilon:g}"
        print(f"{noise}: F1 of the edges {edges.f1:.3f}, consensus with {consensus.number_of_edges()} edges")
    print(learner.privacy_.sentence())
    return found


if __name__ == "__main__":
    main()
