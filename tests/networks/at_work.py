"""One rank of test_cluster: `python -m tests.networks.at_work FOLDER`, once per rank.

Every case runs in one process, since processes are slow to start. The results are written to FOLDER.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import Dropout, graphs
from tacit.networks import RENDEZVOUS_FILE, Cluster, ClusterCoordinator, Simulated, join_process_group
from tacit.privacy import Ledger
from tests.contracts.test_algorithms import DIRECTED, ROUNDS, accepts, digits, graph_for, private
from tests.contracts.test_mixing_options import accepted, with_options
from tests.helpers import run_steps

NODES = 7
SILENCE = 3.0
VERBS = {
    "ring": graphs.build("ring", {"nodes": NODES}),
    "star": graphs.build("star", {"nodes": NODES}),
    "erdos-renyi": graphs.build("erdos-renyi", {"nodes": NODES, "p": 0.5, "seed": 1}),
    "one-peer-exponential": graphs.build("one-peer-exponential", {"nodes": NODES}),
    "directed": DIRECTED,
    "drop-out": Dropout(graphs.build("d-out", {"nodes": NODES, "d": 3}), links=0.3, nodes=0.1, seed=2),
}


def cases():
    """Every algorithm on a graph that changes and drops links, where it can use one; and on a lopsided one."""
    lopsided = VERBS["directed"]
    for name in algorithms:
        plain = graph_for(name, NODES)
        dropping = Dropout(plain, links=0.2, nodes=0.1, seed=0)
        yield name, name, dropping if accepts(name, dropping) else plain
        if accepts(name, lopsided):
            yield f"{name} on a directed graph", name, lopsided
        yield f"{name}, options", name, plain
    yield "dp-norm, asynchronous", "dp-norm", graph_for("dp-norm", NODES)


def ran(case, name, graph, network=None):
    """Models and noise of a run, of all nodes or of those that `network` hosts."""
    options = accepted(name) if "options" in case else {}
    sizes = [40 + 20 * node for node in range(NODES)] if options else None
    weighting = options.get("weights", "equal")
    task = digits(name, nodes=graph.nodes, dtype=torch.float64, sizes=sizes, weighting=weighting)
    algorithm = private(name, asynchronous=True) if "asynchronous" in case else private(name)
    if network is not None:
        task = task.host(network.nodes, Ledger())
    models, _ = run_steps(with_options(algorithm, options), task, network or Simulated(graph), ROUNDS)
    lines = list(task.ledger.releases())
    noise = torch.stack([torch.from_numpy(line.multipliers.copy()) for line in lines], 1)
    return models, noise


def verbs(graph, network):
    """The result of each verb on inputs whose row i depends on i only."""
    generator = torch.Generator().manual_seed(0)
    x, w, s = (torch.randn(graph.nodes, *shape, generator=generator) for shape in ((5,), (), ()))
    mine = torch.from_numpy(network.nodes)
    found = {
        f"mix {t}": torch.cat([v.view(len(mine), -1) for v in network.mix(t, x[mine], w[mine])], 1) for t in (0, 1, 5)
    }
    wide = network.mix(2, x[mine], x[mine].double())  # two precisions in one message
    found["mix both"] = torch.cat([value.double() for value in wide], 1)
    found["max"], found["mean"] = network.max(s[mine])[None], network.mean(x[mine])
    if not graph.directed:
        edges = network.edges(0)
        source, target = torch.from_numpy(edges.source), torch.from_numpy(edges.target)
        z = (source * 100 + target).double()[:, None]
        found["swap"] = network.swap(0, z)
        found["swap some"] = network.swap(0, z, (source + target) % 2 == 0)
    return found


def failing(ranks, how):
    """Run rounds over a ring in which the last rank fails; return the error of this rank."""
    network = Cluster(VERBS["ring"], ranks)
    x, last = torch.ones(len(network.nodes), 3), ranks.rank == ranks.size - 1
    try:
        for t in range(6):
            if t == 3 and last and how == "NaN":
                x[0, 1] = torch.nan
            if t == 3 and last and how == "silent":
                time.sleep(2 * SILENCE)
            if t == 3 and last and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            network.mix(t, x)
    except TacitError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def main():
    folder, rank, meeting = Path(sys.argv[1]), os.environ["RANK"], os.environ[RENDEZVOUS_FILE]
    with join_process_group(60) as ranks:
        results = {}
        for key, graph in VERBS.items():
            network, before = Cluster(graph, ranks), ranks.bytes_sent
            network.mix(0, torch.ones(len(network.nodes), 5), torch.ones(len(network.nodes)))
            results[f"{key} sent"] = torch.tensor([ranks.bytes_sent - before])
            results |= {f"{key} {verb}": value for verb, value in verbs(graph, network).items()}
            total = ClusterCoordinator(ranks).total_traffic(network)
            results[f"{key} traffic"] = torch.tensor([total.messages, total.bytes, total.rounds, total.bytes_out])
        for case, name, graph in cases():
            models, noise = ran(case, name, graph, Cluster(graph, ranks))
            results[f"{case} models"], results[f"{case} noise"] = models, noise
        save_file({key: value.contiguous() for key, value in results.items()}, folder / f"results-{rank}")
        try:
            Cluster(graphs.build("complete", {"nodes": 1}), ranks)
        except TacitError as error:
            (folder / f"few-{rank}").write_text(str(error))
    for how, patience in {"NaN": 60.0, "silent": SILENCE, "killed": 60.0}.items():
        os.environ[RENDEZVOUS_FILE] = f"{meeting}-{how}"
        with join_process_group(patience) as ranks:
            said = failing(ranks, how)
            (folder / f"{how}-{rank}").write_text(said)


if __name__ == "__main__":
    main()
