"""The support matrix: what is proven for which method, sampling, relation, noise, adversary and runtime."""

from tacit.support.accounting import accounting_support
from tacit.support.cells import Answer, Method, MethodSupport, Status
from tacit.support.graph_learning import small_graph_run
from tacit.support.matrix import method_support, noise_support, support_matrix
from tacit.support.training import planned_run, samplings, training_support

__all__ = [
    "Answer",
    "Method",
    "MethodSupport",
    "Status",
    "accounting_support",
    "method_support",
    "noise_support",
    "planned_run",
    "samplings",
    "small_graph_run",
    "support_matrix",
    "training_support",
]
