"""The support matrix: what is proven for which method, sampling, relation, noise, adversary and runtime.

Nothing in it is written by hand. Every method is built with every sampling and relation, and with every choice of its
parameters; the accountant, the threat analysis and a network answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graph_learning import graph_methods
from tacit.registry import Registry
from tacit.runs import Config, check_secret_noise
from tacit.support.cells import Answer, Method, MethodSupport
from tacit.support.graph_learning import graph_support
from tacit.support.training import AT_SITES, IN_SIMULATION, ON_CLUSTER, training_support
from tacit.support.variants import default_method, example_method, variants

Ask = Callable[[Method], MethodSupport]


@lru_cache(maxsize=1)
def support_matrix() -> tuple[MethodSupport, ...]:
    """Return the support of every registered method, and of every setting that changes it. Takes some seconds.

    A method with several names is listed under the first one.
    """
    first_names = {algorithms[name]: name for name in reversed(list(algorithms))}.values()
    return tuple(row for name in (*sorted(first_names), *graph_methods) for row in method_support(name))


def method_support(name: str) -> list[MethodSupport]:
    """Return the support of one method: first with its defaults, then with each setting that changes it.

    If it cannot run with its defaults, it is asked with the parameters of its example.
    """
    registry: Registry[Any] = graph_methods if name in graph_methods else algorithms
    ask: Ask = graph_support if name in graph_methods else training_support
    base = default_method(registry, name)
    try:
        first = ask(base)
    except TacitError:
        base = example_method(registry, name)
        first = ask(base)
    return [first, *_differing(ask, first, variants(registry, base))]


def _differing(ask: Ask, first: MethodSupport, others: Iterator[Method]) -> Iterator[MethodSupport]:
    """Yield the support of those variants that differ from the first. Variants that cannot run are left out."""
    for method in others:
        try:
            found = ask(method)
        except TacitError:
            continue
        if found.profile != first.profile:
            yield found


def noise_support() -> dict[tuple[str, str], Answer]:
    """Return which noise a run can have, by (runtime, "simulated" or "secret")."""
    processes = {IN_SIMULATION: 1, ON_CLUSTER: 2, AT_SITES: 1}
    answers: dict[tuple[str, str], Answer] = {}
    for runtime, count in processes.items():
        for noise in ("simulated", "secret"):
            try:
                check_secret_noise(Config.parse({"noise": noise}), accepted=True, processes=count)
                answers[runtime, noise] = Answer("supported")
            except TacitError as error:
                answers[runtime, noise] = Answer("refused", str(error))
    return answers
