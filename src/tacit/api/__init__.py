"""The Python interface: `tacit.train`, a run in one call."""

from tacit.api.parts import refuse_graph_method
from tacit.api.training import train

__all__ = ["refuse_graph_method", "train"]
