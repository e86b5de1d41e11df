"""Graph learning attacked as it runs: a signal of a client is replaced by another, and all that leaves it is heard."""

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

from tacit.audit.attack import gathered
from tacit.audit.audit import Audit, enough, profile
from tacit.audit.worlds import Eavesdropper
from tacit.errors import TacitError
from tacit.graph_learning import GraphLearningRun, GraphMethod, GraphObserver, Signals, graph_methods, pair_vertices
from tacit.graphs import ring
from tacit.privacy.ledger import Array
from tacit.privacy.noise import Noise
from tacit.runs import apply_setting

_VERTICES = 16
_OTHERS = 8  # clients that are not attacked
_FAR = 1e3  # far beyond any clip bound: clipped, a signal's differences have the length of the bound
_CLEAR = 1000.0  # known signals a vertex, in noise multipliers: so many that noise does not reach 0, which would cut it
_MOST = 20_000
_ASIDE = ("epsilon", "delta", "clip")  # what is set beside a method's own parameters


class Crowd(Eavesdropper):
    """A network of clients that are attacked, one a trial, and of others, who alone make every mean.

    That is how it is where the others are many. So all trials hear the same consensus, which none of them had a part
    in, and are independent. A message is values times a weight, and the weight: one who listens divides by it, and
    takes pairs of vertices that are `alike` (p, kinds) in both worlds together, and some of them alone.
    """

    def __init__(self, trials: int, alike: Tensor) -> None:
        super().__init__(ring(trials + _OTHERS), trials)  # only means are asked for: who is next to whom is all one
        self._alike = alike / alike.sum(0)
        kinds = [kind.nonzero()[:, 0] for kind in alike.T]
        self._alone = torch.cat(
            [kind[[0, len(kind) // 2, -1]] for kind in kinds if len(kind)]
        )  # whoever has less noise

    def mean(self, x: Tensor) -> Tensor:
        if self._listening:
            self.hear(x[:, :-1] / x[:, -1:])
            self._hear(x[: self._trials, -1:])
        return x[self._trials :].mean(0)

    def max(self, s: Tensor) -> Tensor:
        self._hear(s[: self._trials])
        return s[self._trials :].max()

    def hear(self, values: Tensor) -> None:
        """Values of all clients, a number a pair."""
        mine = values[: self._trials]
        self._hear(mine @ self._alike, mine[:, self._alone])


class Repeated(Signals):
    """Signals of a few clients, as those of many: row after row says whose."""

    def __init__(self, signals: list[Array], rows: npt.NDArray[np.int64], clip: float, noise: Noise) -> None:
        super().__init__(signals, clip=clip, noise=noise)
        self.nodes, self.sizes, self._z = np.arange(len(rows)), self.sizes[rows], self._z[rows]
        self.clients = [self.clients[row] for row in rows]


class _Progress(GraphObserver):
    """Calls `watch` with the number of finished rounds."""

    def __init__(self, watch: Callable[[int], None]) -> None:
        self._watch = watch

    def on_round(self, run: GraphLearningRun) -> None:
        self._watch(run.t)


def canaries(method: GraphMethod[Any]) -> Array:
    """Two signals (2, d) to replace each other, the worst for what the method releases.

    Squared differences are never opposite, so orthogonal is the most they can be; these have norm C each. Single peaks,
    at two vertices, have one pair in common: z̄ moves by √(1 − 1/(d − 1)) of the √2 C/N that is proven. Where clients
    solve their problems and release what they find, this is next to nothing: degrees hardly give way. There we
    take signals that tell halves apart, and different halves. They have half of their pairs in common and differ in no
    degree, so that nothing but κ holds the graph, and it moves by √½ of the √2 C/(κN).
    """
    if method.release == "rounds" and method.K is None:
        vertex = np.arange(_VERTICES)
        return np.stack([vertex % 2, vertex // (_VERTICES // 2)]).astype(np.float64)
    return np.eye(2, _VERTICES)


def audit_graphs(
    method: GraphMethod[Any],
    *,
    epsilon: float | None = None,
    delta: float = 1e-5,
    clip: float = 20.0,
    trials: int = 20_000,
    rounds: int = 4,
    confidence: float = 0.95,
    seed: int = 0,
    watch: Callable[[int], None] = lambda done: None,
) -> Audit:
    """Attack a way to learn graphs over its first `rounds` rounds, in which it gets ε (or has its noise).

    A trial is a client among many, of whom one hears what is released, every message and every learned graph.

    >>> from tacit.graph_learning import PPGL
    >>> found = audit_graphs(PPGL(release="rounds", K=1), epsilon=2.0, trials=400, rounds=2)
    >>> found.holds, found.lower <= found.guaranteed <= 2.0
    (True, True)
    """
    if epsilon is not None and method.noise is not None:
        raise TacitError("epsilon and the method's noise both set the noise: leave one of them out")
    method = replace(method, rounds=min(rounds, method.rounds))
    method = method if epsilon is None else method.with_privacy(epsilon, delta)
    if method.noise is None:
        raise TacitError(f"{method.title} without noise guarantees nothing that could be attacked: set epsilon")
    enough(trials)
    there = np.arange(trials) % 2 == 1
    pair = canaries(method)
    rows = np.concatenate([there, np.zeros(_OTHERS)]).astype(np.int64)
    task = Repeated(_worlds(pair, clip, float(np.max(method.noise))), rows, clip, Noise.from_seed(seed))
    network = Crowd(trials, _alike(pair))
    learning = _overheard(task, method, network, delta, watch)
    evidence, stated = gathered(network.transcript(), there), learning.privacy
    return Audit(
        algorithm=method.title,
        lower=evidence.lower(delta, confidence),
        guaranteed=stated.guaranteed,
        claimed=stated.claimed,
        delta=delta,
        confidence=confidence,
        trials=trials,
        rounds=learning.t,
        separation=evidence.separation,
        profile=profile(evidence, task.ledger, confidence),
    )


def audit_named(name: str, settings: Iterable[str], **options: Any) -> Audit:
    """Attack the method of that name, with `key=value` settings: its parameters, epsilon, delta and clip.

    >>> audit_named("ppgl", ["release=rounds", "K=1", "epsilon=2"], trials=400, rounds=2).holds
    True
    """
    given: dict[str, Any] = {}
    kind: Any = graph_methods[name]
    for setting in settings:
        given = apply_setting(given, setting)
    known = [each.name for each in fields(kind)]
    for key, value in given.items():
        if key not in (*known, *_ASIDE):
            raise TacitError(f"{kind.title} has no {key}: it knows {', '.join((*_ASIDE, *known))}")
        if key != "release" and not isinstance(value, int | float):
            raise TacitError(f"{key} must be a number, not {value}")
    aside = {key: given.pop(key) for key in _ASIDE if key in given}
    return audit_graphs(kind(**given), **aside, **options)


def _worlds(pair: Array, clip: float, noise: float) -> list[Array]:
    """A client's signals (N, d) in two worlds; all but the first are known, peaks at every vertex, equally often."""
    known = np.tile(np.eye(_VERTICES), (min(math.ceil(_CLEAR * noise), _MOST), 1))
    return [_FAR * math.sqrt(clip) * np.concatenate([one[None], known]) for one in pair]


def _overheard(
    task: Signals, method: GraphMethod[Any], network: Crowd, delta: float, watch: Callable[[int], None]
) -> GraphLearningRun:
    """A run as it always is, but that it does not end when it has converged, and one listens."""
    z = method.prepare_z(task) if not method.noise_in_rounds else None
    if z is not None:
        network.hear(z)
    learning = GraphLearningRun(
        task, method, network, delta=delta, tolerance=0.0, z=z, quiet=True, observers=[_Progress(watch)]
    )
    if learning.go().stopped:
        raise KeyboardInterrupt  # by hand: half an attack tells nothing
    network.hear(learning.graphs)
    return learning


def _alike(pair: Array) -> Tensor:
    """(p, 4): which pairs of vertices neither signal tells apart, which one, which the other, and which both."""
    first, second = pair_vertices(pair.shape[1])
    apart = torch.from_numpy(pair[:, first] != pair[:, second])
    return one_hot(apart[0] + 2 * apart[1], 4).double()
