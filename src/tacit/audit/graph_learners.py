"""Audits of graph learning: one signal of a client is replaced by another, and all releases are observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tacit.audit.attack import score_transcripts
from tacit.audit.audit import privacy_profile, require_trials
from tacit.audit.bounds import Array
from tacit.audit.recording import RecordingNetwork
from tacit.audit.results import TrialsAudit
from tacit.errors import TacitError
from tacit.graph_learning import GraphLearningRun, GraphMethod, GraphObserver, Signals, graph_methods, pair_vertices
from tacit.graphs import ring
from tacit.privacy import Bounded, Noise
from tacit.runs import apply_settings

_VERTICES = 16
_OTHER_CLIENTS = 8  # clients that are not attacked
_SIGNAL_SCALE = 1e3  # far beyond any clip bound: after clipping, the squared differences have the length of the bound
_KNOWN_PER_NOISE = 1000.0  # known signals per vertex and unit of noise: so many that noise is never cut off at 0
_MAX_KNOWN = 20_000
_AUDIT_SETTINGS = ("epsilon", "delta", "clip")  # settings of the audit, not of the learner


class ClientRecordingNetwork(RecordingNetwork):
    """Records the messages of attacked clients, one per trial; only the other clients determine means and maxima.

    This is the limit of many other clients. All trials then receive the same consensus, to which none of them
    contributed, and are independent. A message is a vector times a weight, and the weight; the adversary divides by
    it. Of the pairs of vertices it records the mean over each group of pairs that both canaries treat alike
    (`groups`, a 0/1 matrix (pairs, groups)), and a few single pairs of each group.
    """

    def __init__(self, trials: int, groups: Tensor) -> None:
        super().__init__(ring(trials + _OTHER_CLIENTS), trials)  # any graph: only means and maxima are used
        self._group_means = groups / groups.sum(0)
        members = [group.nonzero()[:, 0] for group in groups.T]
        self._single_pairs = torch.cat([pairs[[0, len(pairs) // 2, -1]] for pairs in members if len(pairs)])

    def mean(self, x: Tensor) -> Tensor:
        if self._recording:
            self.record_pairs(x[:, :-1] / x[:, -1:])
            self._record(x[: self._trials, -1:])
        return x[self._trials :].mean(0)

    def max(self, s: Tensor) -> Tensor:
        self._record(s[: self._trials])
        return s[self._trials :].max()

    def record_pairs(self, values: Tensor) -> None:
        """Record values (clients, pairs) of all clients."""
        attacked = values[: self._trials]
        self._record(attacked @ self._group_means, attacked[:, self._single_pairs])


class ReplicatedSignals(Signals):
    """The signals of a few clients, assigned to many: client i has those of client `rows[i]`."""

    def __init__(self, signals: list[Array], rows: npt.NDArray[np.int64], clip: float | None, noise: Noise) -> None:
        super().__init__(signals, clip=clip, noise=noise)
        self._few, self._rows = Signals(signals), torch.from_numpy(rows)
        self.nodes, self.sizes, self._z = np.arange(len(rows)), self.sizes[rows], self._z[rows]
        self.clients = [self.clients[row] for row in rows]

    def gram(self, step: int) -> Bounded:
        few = self._few.with_new_ledger().gram(step)
        assert few.sensitivity is not None
        self.ledger.open(step, few.purpose)
        return self.bounded(few.use_locally()[self._rows], few.sensitivity[self._rows], step, few.purpose)


class _ProgressObserver(GraphObserver):
    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress

    def on_round(self, run: GraphLearningRun) -> None:
        self._progress(run.t)


def canary_signals(learner: GraphMethod[Any]) -> Array:
    """Two signals (2, d) that replace each other: the worst case for what the learner releases.

    Squared differences are never negative, so two signals are at most orthogonal, each of norm C. Peaks at two
    vertices share one pair: z̄ moves by √(1 − 1/(d − 1)) of the proven √2 C/N. Centred and scaled to norm 1, they move a
    Gram matrix by √(1 − 1/(d − 1)²) of the proven √2. If clients solve their problems exactly
    and release the solution, such peaks have almost no effect, because degrees hardly change. There, two signals that
    split the vertices into halves are used. They share half of their pairs and all degrees, so that only κ holds the
    graph, and it moves by √½ of √2 C/(κN).
    """
    if learner.release == "rounds" and learner.K is None:
        vertex = np.arange(_VERTICES)
        return np.stack([vertex % 2, vertex // (_VERTICES // 2)]).astype(np.float64)
    return np.eye(2, _VERTICES)


def audit_graph_learner(
    learner: GraphMethod[Any],
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    clip: float = 20.0,
    trials: int = 20_000,
    rounds: int = 4,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> TrialsAudit:
    """Attack a graph learner over its first `rounds` rounds, with noise for `epsilon` in these rounds.

    A trial is one client among many. The adversary sees every release, message and learned graph.

    Args:
        learner: The graph learner.
        epsilon: The ε to calibrate the noise for; None: the learner has its own noise.
        delta: δ of the guarantee.
        clip: The clip bound C of a signal's squared differences; not used with `statistic="gram"`.
        trials: Number of attacked clients, half of them with either canary.
        rounds: Number of rounds to attack.
        confidence: Confidence of the lower bounds.
        seed: Seed of the noise.
        progress: Called after every round with the number of rounds done.

    Example:
        >>> from tacit.graph_learning import PPGL
        >>> result = audit_graph_learner(PPGL(release="rounds", K=1), epsilon=2.0, trials=400, rounds=2)
        >>> result.holds, result.lower <= result.guaranteed <= 2.0
        (True, True)
    """
    learner = _with_noise(learner, epsilon, delta, rounds)
    assert learner.noise is not None
    require_trials(trials)
    included = np.arange(trials) % 2 == 1
    canaries = canary_signals(learner)
    rows = np.concatenate([included, np.zeros(_OTHER_CLIENTS)]).astype(np.int64)
    signals = _client_signals(canaries, clip, float(np.max(learner.noise)))
    bound = clip if learner.statistic == "differences" else None
    task = ReplicatedSignals(signals, rows, bound, Noise.from_seed(seed))
    network = ClientRecordingNetwork(trials, _pair_groups(canaries))
    run = _record_run(task, learner, network, delta, progress)
    scores, spent = score_transcripts(network.transcripts(), included), run.privacy
    return TrialsAudit(
        algorithm=learner.title,
        lower=scores.lower(delta, confidence),
        guaranteed=spent.guaranteed,
        claimed=spent.claimed,
        delta=delta,
        confidence=confidence,
        trials=trials,
        rounds=run.t,
        separation=scores.separation,
        profile=privacy_profile(scores, task.ledger, confidence),
    )


def audit_named_learner(name: str, settings: Iterable[str], **options: Any) -> TrialsAudit:
    """Attack the registered learner `name` with `key=value` settings: its parameters, epsilon, delta and clip.

    >>> audit_named_learner("ppgl", ["release=rounds", "K=1", "epsilon=2"], trials=400, rounds=2).holds
    True
    """
    given = apply_settings({}, settings)
    learner: Any = graph_methods[name]
    accepted = (*_AUDIT_SETTINGS, *(field.name for field in fields(learner)))
    for key, value in given.items():
        if key not in accepted:
            raise TacitError(f"{learner.title} has no parameter {key}; accepted: {', '.join(accepted)}")
        if key not in ("release", "statistic") and not isinstance(value, int | float):
            raise TacitError(f"{key} must be a number, got {value}")
    audit_settings = {key: given.pop(key) for key in _AUDIT_SETTINGS if key in given}
    return audit_graph_learner(learner(**given), **audit_settings, **options)


def _with_noise(learner: GraphMethod[Any], epsilon: float | None, delta: float, rounds: int) -> GraphMethod[Any]:
    """The learner for at most `rounds` rounds, with noise for `epsilon` or its own."""
    if epsilon is not None and learner.noise is not None:
        raise TacitError("epsilon and the learner's noise both set the noise: leave one of them out")
    learner = replace(learner, rounds=min(rounds, learner.rounds))
    learner = learner if epsilon is None else learner.with_privacy(epsilon, delta)
    if learner.noise is None:
        raise TacitError(f"{learner.title} without noise has no guarantee to test: set epsilon")
    return learner


def _client_signals(canaries: Array, clip: float, noise: float) -> list[Array]:
    """A client's signals (N, d) with either canary first; all others are known: peaks, equally often at each vertex."""
    known = np.tile(np.eye(_VERTICES), (min(math.ceil(_KNOWN_PER_NOISE * noise), _MAX_KNOWN), 1))
    return [_SIGNAL_SCALE * math.sqrt(clip) * np.concatenate([canary[None], known]) for canary in canaries]


def _record_run(
    task: Signals,
    learner: GraphMethod[Any],
    network: ClientRecordingNetwork,
    delta: float,
    progress: Callable[[int], None],
) -> GraphLearningRun:
    """Run all rounds, even after convergence, and record everything that is released."""
    z = None if learner.noise_in_rounds else learner.prepare_z(task)
    if z is not None:
        network.record_pairs(z)
    observers = [_ProgressObserver(progress)]
    run = GraphLearningRun(task, learner, network, delta=delta, tolerance=0.0, z=z, quiet=True, observers=observers)
    if run.go().stopped:
        raise KeyboardInterrupt  # an interrupted attack has no result
    network.record_pairs(run.graphs)
    return run


def _pair_groups(canaries: Array) -> Tensor:
    """Pairs of vertices in four groups (p, 4): equal in both canaries, different in one, in the other, in both."""
    first, second = pair_vertices(canaries.shape[1])
    different = torch.from_numpy(canaries[:, first] != canaries[:, second])
    return one_hot(different[0] + 2 * different[1], 4).double()
