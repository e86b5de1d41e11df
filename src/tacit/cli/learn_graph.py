"""`tacit learn-graph`: graphs from the signals of several clients, and what that cost."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import INTERRUPTED, app
from tacit.cli.output import err, print_json, print_line

if TYPE_CHECKING:
    from tacit.graph_learning import ClientSignals, GraphLearner


class Method(StrEnum):
    """Methods, as the command line spells them."""

    PPGL = "ppgl"
    IGL = "igl"
    FEDAVG = "fedavg"


class When(StrEnum):
    """What is released with noise: the mean of the signals' differences once, or graphs in every round."""

    ONCE = "once"
    ROUNDS = "rounds"


@app.command("learn-graph")
def learn_graph(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Signals, .csv or .npz, a file a client; without any, an embedded example."),
    ] = None,
    method: Annotated[Method, typer.Option(help="How to learn.")] = Method.PPGL,
    epsilon: Annotated[float | None, typer.Option(help="Guarantee this ε for each signal; else no privacy.")] = None,
    delta: Annotated[float, typer.Option(help="δ that goes with ε.")] = 1e-5,
    clip: Annotated[
        float | None,
        typer.Option(help="Bound on the norm of a signal's squared differences; ε needs one (the example: 20)."),
    ] = None,
    release: Annotated[When, typer.Option(help="What gets the noise: one release, or every round's.")] = When.ONCE,
    local_steps: Annotated[
        int | None, typer.Option(help="Steps of a client in each round (K); by default it solves its problem.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most; with --release rounds, exactly.")] = None,
    beta: Annotated[float | None, typer.Option(help="β; by default from what was released.")] = None,
    rho: Annotated[float | None, typer.Option(help="ρ, the pull to the consensus; by default likewise.")] = None,
    lam: Annotated[float | None, typer.Option(help="λ, for a sparse consensus; by default likewise.")] = None,
    neighbours: Annotated[float | None, typer.Option(help="Edges a vertex, for the default β.")] = None,
    seed: Annotated[int | None, typer.Option(help="Noise from a seed: a simulation, not private.")] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for the graphs; by default graphs/NAME.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Learn graphs from signals that stay where they are, and say what it cost."""
    from tacit.graph_learning import GraphLearner
    from tacit.runs import storage

    clients, clip = _clients(files, clip)
    options: dict[str, Any] = {"K": local_steps} if rounds is None else {"K": local_steps, "rounds": rounds}
    learner = GraphLearner(
        method.value,
        beta=beta,
        rho=rho,
        lam=lam,
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        release=release.value,
        seed=seed,
        neighbours=neighbours,
        **options,
    )
    out = out_dir or storage.unused_folder(Path("graphs"), files[0].stem if files else "example")
    _learn(learner, clients, out)
    result = {**learner.run_.result(), "parameters": learner.parameters_, "out": str(out)}
    if as_json:
        print_json(result)
    else:
        _report(learner, out)
    if learner.run_.stopped and "by hand" in learner.run_.stopped:
        raise typer.Exit(INTERRUPTED)


def _clients(files: list[Path] | None, clip: float | None) -> tuple[ClientSignals, float | None]:
    from tacit.graph_learning import ClientSignals, read_clients, synthetic

    if files:
        return read_clients(files), clip
    data = synthetic.rbf(clients=5, signals=500, seed=0)
    err.print("No files given: here are 5 clients with 500 made-up signals each, on 20 vertices.", highlight=False)
    return ClientSignals(data.signals, [f"client-{i}" for i in range(5)], None), 20.0 if clip is None else clip


def _learn(learner: GraphLearner, clients: ClientSignals, out: Path) -> None:
    """Learn, and write all there is to `out`. The ledger is there first: what is released is written down before."""
    from tacit.graph_learning import GraphLearningRun, GraphObserver, write_graph
    from tacit.privacy.ledger import Ledger
    from tacit.reports import PAGE, write_graph_page
    from tacit.runs import storage

    class Progress(GraphObserver):
        def on_round(self, run: GraphLearningRun) -> None:
            status.update(f"Learning: round {run.t}, {_where(run.history[-1])}")

    storage.create_folder(out)
    ledger = None
    try:
        ledger = Ledger(out / "ledger.sqlite", durable=learner.seed is None)
        with err.status("Learning") as status:
            learner.fit(clients.signals, ledger=ledger, observers=[Progress()])
    except BaseException:
        if ledger is None or len(ledger) == 0:  # nothing has left, so nothing need be kept
            shutil.rmtree(out)
        raise
    finally:
        if ledger is not None and out.exists():
            ledger.flush()
    storage.write_history(out / "history.csv", learner.history_)
    if learner.consensus_ is not None:
        write_graph(learner.to_networkx(names=clients.vertices), out, "consensus")
    for i, name in enumerate(clients.names):
        write_graph(learner.to_networkx(i, clients.vertices), out, name)
    storage.write_json(out / "result.json", {**learner.run_.result(), "parameters": learner.parameters_})
    write_graph_page(learner, out / PAGE, clients.names, clients.vertices)


def _where(row: dict[str, float | None]) -> str:
    key = "residual" if row["residual"] is not None else "change"
    return f"{key} {row[key]:.1e}"


def _report(learner: GraphLearner, out: Path) -> None:
    learning = learner.run_
    if learning.stopped:
        print_line(f"Stopped: {learning.stopped}.")
    ends = {True: ", converged", False: ", not converged", None: ""}[learning.converged]
    shared = ""
    if learner.consensus_ is not None:
        shared = f"; the consensus has {learner.to_networkx().number_of_edges()} edges"
    chosen = ", ".join(f"{key} = {value:.3g}" for key, value in learner.parameters_.items())
    print_line(
        f"{learning.method.title} with {chosen}: {learning.task.n} graphs of {learning.task.d} vertices "
        f"after {learning.t} round{'s' if learning.t > 1 else ''}{ends}{shared}."
    )
    print_line(learner.privacy_.sentence())
    print_line(f"Everything is in {out}; the page to look at is {out}/report.html.")
