"""`tacit learn-graph`: learn graphs from the signals of several clients."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.interrupt import INTERRUPTED
from tacit.cli.output import err, print_json, print_line, results_line
from tacit.cli.privacy_lines import warn_if_weak

if TYPE_CHECKING:
    from tacit.graph_learning import ClientSignals, GraphLearner
    from tacit.privacy import Privacy

_EXAMPLE_CLIP = 20.0


class ReleaseMode(StrEnum):
    """What is released with noise: each client's statistic once, or the graphs of every round."""

    ONCE = "once"
    ROUNDS = "rounds"


class StatisticChoice(StrEnum):
    """What a client computes from its signals: the Gram matrix of unit signals, or mean squared differences."""

    GRAM = "gram"
    DIFFERENCES = "differences"


# The types and help texts of the options, apart from the command to keep it short.
_Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Signals in .csv or .npz files, one per client. Without files: an embedded example."),
]
_MethodName = Annotated[str, typer.Option(help="Method: ppgl, igl or fedavg.")]
_Epsilon = Annotated[float | None, typer.Option(help="ε to guarantee for each signal. Without it nothing is private.")]
_Delta = Annotated[float, typer.Option(help="δ of the guarantee.")]
_Clip = Annotated[
    float | None,
    typer.Option(
        help="Bound on the norm of a signal's squared differences. With --epsilon, required for "
        "--statistic differences and --release rounds (the example uses 20)."
    ),
]
_Statistic = Annotated[
    StatisticChoice | None,
    typer.Option(
        help="What a client computes from its signals. Default: gram with --epsilon, one release and no --clip; "
        "otherwise differences."
    ),
]
_Release = Annotated[
    ReleaseMode, typer.Option(help="Add noise once, to each client's statistics, or to the graphs of all rounds.")
]
_LocalSteps = Annotated[
    int | None,
    typer.Option(help="Local steps per round (K). Without it clients solve their problems exactly."),
]
_Rounds = Annotated[int | None, typer.Option(help="Maximum number of rounds; with --release rounds, the exact number.")]
_Beta = Annotated[
    float | None, typer.Option(help="β: larger values give more edges. Default: chosen from the released data.")
]
_Rho = Annotated[
    float | None, typer.Option(help="ρ: pull towards the consensus. Default: chosen from the released data.")
]
_Lam = Annotated[
    float | None, typer.Option(help="λ: sparsity of the consensus. Default: chosen from the released data.")
]
_Neighbours = Annotated[float | None, typer.Option(help="Mean number of edges per vertex, for the default β.")]
_Seed = Annotated[
    int | None, typer.Option(help="Derive the noise from this seed: a simulation. Default: secret noise.")
]
_PopulationName = Annotated[
    str | None, typer.Option(help="Population of these signals, if they change: ε of all its runs adds up.")
]
_PopulationBudget = Annotated[
    float | None, typer.Option(help="Refuse the run if all runs on these signals would exceed this ε.")
]
_OutFolder = Annotated[Path | None, typer.Option("--out", help="Output folder. Default: graphs/NAME.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
_Verbose = Annotated[bool, typer.Option("--verbose", help="Also print the parameters and the full privacy statement.")]


@app.command("learn-graph")
def learn_graph(
    files: _Files = None,
    method: _MethodName = "ppgl",
    epsilon: _Epsilon = None,
    delta: _Delta = 1e-5,
    clip: _Clip = None,
    release: _Release = ReleaseMode.ONCE,
    statistic: _Statistic = None,
    local_steps: _LocalSteps = None,
    rounds: _Rounds = None,
    beta: _Beta = None,
    rho: _Rho = None,
    lam: _Lam = None,
    neighbours: _Neighbours = None,
    seed: _Seed = None,
    population: _PopulationName = None,
    population_budget: _PopulationBudget = None,
    out_dir: _OutFolder = None,
    as_json: _AsJson = False,
    verbose: _Verbose = False,
) -> None:
    """Learn graphs from signals that stay with their clients, with a privacy guarantee."""
    from tacit.graph_learning import GraphLearner
    from tacit.runs import storage

    clients, clip = _clients(files, clip, _uses_differences(statistic, epsilon, release))
    options: dict[str, Any] = {"K": local_steps} if rounds is None else {"K": local_steps, "rounds": rounds}
    learner = GraphLearner(
        method,
        beta=beta,
        rho=rho,
        lam=lam,
        epsilon=epsilon,
        delta=delta,
        clip=clip,
        release=release.value,
        statistic=statistic.value if statistic else None,
        seed=seed,
        neighbours=neighbours,
        population=population,
        population_budget=population_budget,
        **options,
    )
    out = out_dir or storage.unused_folder(Path("graphs"), files[0].stem if files else "example")
    warn_if_weak(epsilon)
    page = _learn(learner, clients, out)
    (_print_json_result if as_json else _print_result)(learner, out, page, verbose)
    if learner.run_.interrupted:
        raise typer.Exit(INTERRUPTED)


def _uses_differences(statistic: StatisticChoice | None, epsilon: float | None, release: ReleaseMode) -> bool:
    """Return whether a run without a clip uses squared differences."""
    from tacit.graph_learning import default_statistic

    default = default_statistic(private=epsilon is not None, release=release.value, clip=None)
    return (statistic or default) == "differences"


def _clients(files: list[Path] | None, clip: float | None, differences: bool) -> tuple[ClientSignals, float | None]:
    """Return the signals in the files, or those of the example, which has a clip for squared differences."""
    from tacit.graph_learning import ClientSignals, read_clients, synthetic

    if files:
        return read_clients(files), clip
    data = synthetic.rbf(clients=5, signals=500, seed=0)
    err.print("No files given: using synthetic signals of 5 clients, 500 each, on 20 vertices.", highlight=False)
    clients = ClientSignals(data.signals, [f"client-{i}" for i in range(5)], None)
    return clients, _EXAMPLE_CLIP if clip is None and differences else clip


def _learn(learner: GraphLearner, clients: ClientSignals, out: Path) -> Path | None:
    """Learn, write all results to `out` and return the page. The ledger comes first: it records a release before it."""
    from tacit.graph_learning import GraphLearningRun, GraphObserver, write_graph
    from tacit.privacy import Ledger
    from tacit.reports import REPORT_FILE, write_graph_page, write_if_installed
    from tacit.runs import storage

    class StatusLine(GraphObserver):
        """Shows the round and the distance from convergence."""

        def on_round(self, run: GraphLearningRun) -> None:
            run.task.ledger.flush()  # before anything is shown that was computed from a release
            row = run.history[-1]
            key = "residual" if row["residual"] is not None else "change"
            status.update(f"Learning: round {run.t}, {key} {row[key]:.1e}")

    storage.create_folder(out)
    ledger = None
    try:
        ledger = Ledger(out / "ledger.sqlite", durable=learner.seed is None)
        with err.status("Learning") as status:
            learner.fit(clients.signals, ledger=ledger, observers=[StatusLine()])
    except BaseException:
        if ledger is None or len(ledger) == 0:  # nothing was released, so no record is needed
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
    return write_if_installed(write_graph_page, learner, out / REPORT_FILE, clients.names, clients.vertices)


def _print_json_result(learner: GraphLearner, out: Path, page: Path | None, verbose: bool) -> None:
    print_json({**learner.run_.result(), "parameters": learner.parameters_, "out": str(out)})


def _print_result(learner: GraphLearner, out: Path, page: Path | None, verbose: bool) -> None:
    run = learner.run_
    if run.stopped:
        print_line(f"Stopped: {run.stopped}")
    facts = {True: ["converged"], False: ["not converged"], None: []}[run.converged]
    if learner.consensus_ is not None:
        facts.append(f"consensus with {learner.to_networkx().number_of_edges()} edges")
    else:
        facts.append("no consensus")
    print_line(
        f"{run.method.title}, {run.task.n} client{'s' if run.task.n > 1 else ''}, {run.task.d} vertices, "
        f"{run.t} round{'s' if run.t > 1 else ''}: {', '.join(facts)}"
    )
    if verbose:
        print_line("Parameters: " + ", ".join(f"{key} = {value:.3g}" for key, value in learner.parameters_.items()))
        print_line(learner.privacy_.sentence())
    else:
        print_line(_privacy_line(learner.privacy_))
        if run.task.noise.simulation_note and run.method.noise is not None:
            print_line(run.task.noise.simulation_note)
        if learner.privacy_.runs:
            print_line(learner.privacy_.total_sentence)
    print_line(results_line(out, page))


def _privacy_line(privacy: Privacy) -> str:
    from tacit.privacy import rounded_up

    if privacy.guaranteed is None:
        return f"No privacy is guaranteed: {privacy.reason}"
    claim = "" if privacy.claimed is None else f" (the paper's formula claims {privacy.claimed:.4g})"
    return (
        f"{privacy.label} ε = {rounded_up(privacy.guaranteed)}{claim}, δ = {privacy.delta:g} per signal (replace one), "
        f"against {privacy.adversary}"
    )
