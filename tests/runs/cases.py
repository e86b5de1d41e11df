"""Small runs, ways to interrupt them, and a comparison of two runs."""

import torch

from tacit.runs import Config, Observer, from_config

SMALL = {
    "rounds": 12,
    "evaluate_every": 5,
    "graph": {"name": "one-peer-exponential", "nodes": 5},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 1.5},
    "batch": {"size": 16},
    "privacy": {"delta": 1e-4},
    "network": {"gradient_time": 0.1, "link_time": 1.0, "bandwidth": 1e4},
}


def small(*, out=None, resume=False, extend=0, observers=(), **changes):
    """The run of the small config, with whole sections or keys replaced."""
    return from_config(Config.parse(SMALL | changes), out=out, resume=resume, extend=extend, observers=observers)


class AfterRound(Observer):
    """Calls `action(run)` after round `t`."""

    def __init__(self, t, action):
        self._t, self._action = t, action

    def on_round(self, run):
        if run.t == self._t:
            self._action(run)


def interrupt_after(rounds):
    """An observer that interrupts a run as Ctrl-C does."""

    def interrupt(run):
        raise KeyboardInterrupt

    return AfterRound(rounds, interrupt)


def interrupt_verb(run, verb, call):
    """Interrupt the run inside a round: the `call`-th use of a network's verb raises."""
    real, calls = getattr(run.network, verb), []

    def broken(*args):
        calls.append(args)
        result = real(*args)
        if len(calls) == call:
            raise KeyboardInterrupt
        return result

    setattr(run.network, verb, broken)


def rows(run):
    return [{key: value for key, value in row.items() if key != "wall_seconds"} for row in run.evaluations]


def lines(run):
    return [
        (
            line.step,
            line.purpose,
            line.mechanism.name,
            line.multipliers.tolist(),
            line.sampling.kind,
            line.rates.tolist(),
        )
        for line in run.task.ledger.releases()
    ]


def assert_same(one, other):
    """Compare two runs bit for bit, except for wall-clock times."""
    assert torch.equal(one.models, other.models)
    assert rows(one) == rows(other)
    assert lines(one) == lines(other)
    assert one.network.traffic == other.network.traffic
    assert one.task.draws == other.task.draws
    assert one.privacy == other.privacy
    assert one.privacy.per_node.tolist() == other.privacy.per_node.tolist()
