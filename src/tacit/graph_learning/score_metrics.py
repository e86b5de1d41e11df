"""The scores of learned graphs as metrics, for tables and charts of experiments. F1 is also a metric of classifiers."""

from __future__ import annotations

from tacit.runs.metrics import Metric, metrics


class GraphScore(Metric):
    """A score of learned graphs; trained models have none."""

    format, charted = ".3f", False


@metrics.register("precision")
class EdgePrecision(GraphScore):
    """Precision of the edges."""

    title, short = "Precision of the edges", "precision"


@metrics.register("recall")
class EdgeRecall(GraphScore):
    """Recall of the edges."""

    title, short = "Recall of the edges", "recall"


@metrics.register("relative_error")
class RelativeError(GraphScore):
    """Relative error of the weights."""

    title, short = "Relative error of the weights", "RE"


@metrics.register("gamma")
class ClientWeight(GraphScore):
    """Weight γ of the client in the consensus."""

    title, short = "Weight γ of the client", "γ"


@metrics.register("nmi")
class MutualInformation(GraphScore):
    """Normalised mutual information of the communities and the known labels."""

    title, short = "Normalised mutual information of the communities", "NMI"


@metrics.register("ri")
class RandIndex(GraphScore):
    """Rand index of the communities."""

    title, short = "Rand index of the communities", "RI"


@metrics.register("fmi")
class FowlkesMallowsIndex(GraphScore):
    """Fowlkes–Mallows index of the communities."""

    title, short = "Fowlkes–Mallows index of the communities", "FMI"


@metrics.register("reconstruction_error")
class ReconstructionError(GraphScore):
    """Relative error of reconstructed signals."""

    title, short = "Relative error of reconstructed signals", "RE"


@metrics.register("local_error")
class LocalError(GraphScore):
    """Relative error of the clients' graphs at a round."""

    title, short = "Relative error of the clients’ graphs", "error of the clients"


@metrics.register("consensus_error")
class ConsensusError(GraphScore):
    """Relative error of the consensus graph at a round."""

    title, short = "Relative error of the consensus", "error of the consensus"
