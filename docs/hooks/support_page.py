"""The support matrix as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tacit.support import Answer, MethodSupport, accounting_support, noise_support, samplings, support_matrix

from markdown_text import code, literal, table, within

_CLASSES = {
    "proven": "yes",
    "supported": "yes",
    "no bound known": "unknown",
    "refused": "no",
    "not applicable": "none",
}
_SHORT = {
    "an eavesdropper on every link": "eavesdropper on every link",
    "any one node": "any one node",
    "a holder of the mean of the final models": "holder of the mean model",
    "a holder of all final models": "holder of all models",
    "a reader of the published accuracies and losses": "reader of the metrics",
}


def support_page() -> str:
    """Return every table of the support matrix."""
    rows = support_matrix()
    training = [row for row in rows if len(row.adversaries) > 1]
    graph = [row for row in rows if len(row.adversaries) == 1]
    refused = [
        pair for pair in samplings() if all(row.samplings[pair].reason.startswith("refused") for row in training)
    ]
    pairs = [pair for pair in samplings() if pair not in refused]
    parts = [
        "## Sampling and relation\n",
        f"Refused for every method: {'; '.join(_pair(*pair) for pair in refused)}.\n",
        _matrix(training, [_pair(*pair) for pair in pairs], lambda row: [row.samplings[pair] for pair in pairs]),
        "## Noise\n",
        _noise(training),
        "## Adversary\n",
        _matrix(training, [_SHORT[title] for title in training[0].adversaries], lambda row: row.adversaries.values()),
        "## Runtime\n",
        _matrix(training, list(training[0].runtimes), lambda row: row.runtimes.values()),
        "Noise can be simulated (from a seed) or secret:\n",
        _noise_by_runtime(),
        "## Graph learning\n",
        _graph_learning(graph),
        "## Mechanisms and sampling\n",
        "What the accountant supports for releases of your own, whatever the method:\n",
        _accounting(),
    ]
    return "\n".join(parts)


def _matrix(
    rows: Iterable[MethodSupport], head: list[str], answers: Callable[[MethodSupport], Iterable[Answer]]
) -> str:
    body = [[_title(row), *map(_cell, answers(row))] for row in rows]
    return within("wide", table(["method", *head], body))


def _noise(rows: Iterable[MethodSupport]) -> str:
    kinds = ("gaussian", "laplace", "unproven", "exact")
    correlated = ["paired", "correlated in time"]
    head = ["method", "protects", "Gaussian", *correlated, "Laplace", "noise without a proof", "no noise"]
    body = []
    for row in rows:
        status = next(iter(row.adversaries.values()))
        cells = [_cell(status) if kind == row.noise else _cell(Answer("not applicable")) for kind in kinds]
        more = [_cell(row.correlations[kind]) for kind in correlated]
        body.append([_title(row), f"a {row.unit}", cells[0], *more, *cells[1:]])
    return within("wide", table(head, body))


def _noise_by_runtime() -> str:
    answers = noise_support()
    runtimes = list(dict.fromkeys(runtime for runtime, _ in answers))
    body = [[runtime, *(_cell(answers[runtime, noise]) for noise in ("simulated", "secret"))] for runtime in runtimes]
    return within("wide", table(["runtime", "simulated noise", "secret noise"], body))


def _graph_learning(rows: Iterable[MethodSupport]) -> str:
    body = []
    for row in rows:
        ((adversary, answer),) = row.adversaries.items()
        pairs = [_pair(*pair) for pair, found in row.samplings.items() if found.status == "proven"]
        body.append(
            [_title(row), row.noise, ", ".join(pairs), adversary, _cell(answer), *map(_cell, row.runtimes.values())]
        )
        runtimes = list(row.runtimes)
    return within("wide", table(["method", "noise", "sampling", "adversary", "ε", *runtimes], body))


def _accounting() -> str:
    answers, pairs = accounting_support(), samplings()
    names = list(dict.fromkeys(name for name, _, _ in answers))
    body = [[code(name), *(_cell(answers[name, *pair]) for pair in pairs)] for name in names]
    return within("wide", table(["mechanism", *(_pair(*pair) for pair in pairs)], body))


def _pair(sampling: str, relation: str) -> str:
    return f"{'all records' if sampling == 'none' else sampling}, {relation}"


def _title(row: MethodSupport) -> str:
    name, *settings = row.method.title.split(", ", 1)
    return code(name) + "".join(
        f"<br><small>{literal(each.replace(' = ', '&nbsp;=&nbsp;')).replace('&amp;', '&')}</small>" for each in settings
    )


def _cell(answer: Answer) -> str:
    text = f"{answer.status}*" if answer.is_weaker else answer.status
    reason = literal(answer.reason).replace('"', "&quot;").replace("\\", "")
    return f'<span class="support {_CLASSES[answer.status]}" title="{reason}">{text}</span>'
