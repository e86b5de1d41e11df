"""NVFlare's peer-to-peer consensus in its simulator, one process per node; runs in its own environment.

Prints the seconds of each iteration at the first node. Processes import `TimedConsensus` from this file.
"""

import itertools
import json
import os
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from nvflare.app_opt.p2p.controllers import DistOptController
from nvflare.app_opt.p2p.executors import ConsensusExecutor
from nvflare.app_opt.p2p.types import Config, Neighbor, Network, Node
from nvflare.job_config.api import FedJob

TIMES, WARM_UP = "TACIT_BENCH_TIMES", 20


class TimedConsensus(ConsensusExecutor):
    """NVFlare's executor; notes when each exchange ends."""

    def __init__(self, initial_value: float | None = None):
        super().__init__(initial_value)
        self._ends: list[float] = []

    def _exchange_values(self, fl_ctx, value, iteration):
        super()._exchange_values(fl_ctx, value, iteration)
        self._ends.append(time.perf_counter())

    def _post_algorithm_run(self, *args, **kwargs):
        if self.client_name == "site-1":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            found = {"ends": self._ends, "memory": peak, "value": self.current_value}
            Path(os.environ[TIMES]).write_text(json.dumps(found))


def ring(nodes: int) -> Network:
    def node(i: int) -> Node:
        sides = sorted({(i - 1) % nodes, (i + 1) % nodes})
        return Node(id=f"site-{i + 1}", neighbors=[Neighbor(id=f"site-{j + 1}", weight=1 / 3) for j in sides])

    return Network(nodes=[node(i) for i in range(nodes)])


def main() -> None:
    rounds, nodes = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        os.environ[TIMES] = f"{folder}/times.json"
        os.environ["PYTHONPATH"] = str(Path(__file__).parent)
        job = FedJob(name="consensus")
        job.to_server(DistOptController(config=Config(network=ring(nodes), extra={"iterations": rounds + WARM_UP})))
        from flare import TimedConsensus as Imported  # by the name under which other processes can import it

        for i in range(nodes):
            job.to(Imported(initial_value=float(i)), f"site-{i + 1}")
        job.simulator_run(f"{folder}/work", threads=nodes, log_config="concise")
        found = json.loads(Path(os.environ[TIMES]).read_text())
    ends = found["ends"][WARM_UP - 1 :]
    assert abs(found["value"] - (nodes - 1) / 2) < 1e-2, "the nodes must agree on the mean"
    times = [b - a for a, b in itertools.pairwise(ends)]
    print(json.dumps({"times": times, "memory": found["memory"], "version": version("nvflare")}))


if __name__ == "__main__":
    main()
