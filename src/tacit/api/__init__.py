"""The Python interface: `tacit.train`, a run in one call."""

from tacit.api.train import refuse_graph_method, train

__all__ = ["refuse_graph_method", "train"]
