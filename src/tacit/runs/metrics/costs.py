"""What a run costs: privacy, messages, time."""

from __future__ import annotations

from tacit.privacy import rounded_up
from tacit.runs.metrics.evaluation import Evaluation
from tacit.runs.metrics.metric import Metric, Result, metrics


@metrics.register("guaranteed")
class GuaranteedEpsilon(Metric):
    """Guaranteed ε spent so far by the node that has spent most."""

    title, short, position, charted = "Guaranteed ε", "guaranteed ε", 60, False

    def measure(self, evaluation: Evaluation) -> float | None:
        return evaluation.privacy.guaranteed

    def text(self, value: float | None) -> str:
        return "none" if value is None else rounded_up(value, 3)


@metrics.register("claimed")
class ClaimedEpsilon(Metric):
    """ε that the paper's formula claims."""

    title, short, position, charted = "Claimed ε", "claimed ε", 61, False

    def measure(self, evaluation: Evaluation) -> float | None:
        return evaluation.privacy.claimed

    def text(self, value: float | None) -> str:
        """
        >>> claimed = ClaimedEpsilon("claimed")
        >>> claimed.text(1.0), claimed.text(100.0), claimed.text(500_000.0), claimed.text(None)
        ('1.00', '100', '500,000', 'none')
        """
        return "none" if value is None else f"{value:#.3g}" if value < 100 else f"{value:,.0f}"


@metrics.register("messages")
class MessagesSent(Metric):
    """Messages sent so far by all nodes."""

    title, short, format, position, charted = "Messages sent", "messages", ",.0f", 70, False

    def measure(self, evaluation: Evaluation) -> int:
        return evaluation.traffic.messages


@metrics.register("bytes")
class BytesSent(Metric):
    """Bytes sent so far by all nodes."""

    title, short, unit, scale, position = "Data sent", "sent", "MB", 1e-6, 71
    about, about_site = "by all nodes", "by the site"

    def measure(self, evaluation: Evaluation) -> int:
        return evaluation.traffic.bytes


@metrics.register("cost_seconds")
class CostSeconds(Metric):
    """Seconds on the cost clock, which the `[network]` section of a config sets."""

    title, short, unit, format, position, charted = "Time on the cost clock", "cost clock", "s", ".1f", 80, False

    def measure(self, evaluation: Evaluation) -> float:
        traffic, costs = evaluation.traffic, evaluation.network.costs
        return costs.seconds(evaluation.task.draws, traffic.rounds, traffic.bytes_out)


@metrics.register("wall_seconds")
class WallSeconds(Metric):
    """Seconds since the run began."""

    title, short, unit, format, position, charted = "Wall-clock time", "wall clock", "s", ".1f", 81, False

    def measure(self, evaluation: Evaluation) -> float:
        return round(evaluation.elapsed(), 3)

    def summarise(self, result: Result) -> float | None:
        """From the first evaluation, before round 0, to the last: loading the data does not count."""
        history = result["history"]
        return float(history[-1][self.name] - history[0][self.name])
