"""A graph whose rounds are several rounds of another graph."""

import math

from scipy import sparse

from tacit.graphs.base import Graph


class Repeated(Graph):
    """The graph of rounds that mix m = `times` times: round t has the product of the matrices tm … tm + m − 1.

    >>> from tacit.graphs import one_peer_exponential
    >>> graph = Repeated(one_peer_exponential(8), 3)  # three offsets per round average exactly
    >>> graph.period, graph.at(0).toarray().round(3)[0]
    (1, array([0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125]))
    """

    def __init__(self, graph: Graph, times: int) -> None:
        period = None if graph.period is None else graph.period // math.gcd(graph.period, times)
        super().__init__(graph.nodes, period, f"{graph.name}, {times} times per round")
        self._graph, self._times = graph, times
        self._matrices: dict[int, sparse.csr_array] = {}

    def at(self, t: int) -> sparse.csr_array:
        t = t if self.period is None else t % self.period
        if t not in self._matrices:
            if self.period is None:
                self._matrices.clear()  # rounds never repeat: keep the last one only
            self._matrices[t] = self._graph.product(t * self._times, (t + 1) * self._times)
        return self._matrices[t]
