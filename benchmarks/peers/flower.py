"""Flower's simulation of a 57-parameter logistic regression, in its own environment; prints seconds per round."""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

NODES, RECORDS, ROUNDS = 100, 64, int(sys.argv[1])
client, server = ClientApp(), ServerApp()
ends: list[float] = []


@client.train()
def train(message: Message, context: Context) -> Message:
    w = message.content["arrays"].to_numpy_ndarrays()[0]
    rng = np.random.default_rng(context.node_config["partition-id"])
    x = rng.normal(size=(RECORDS, 56)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)
    error = 1 / (1 + np.exp(-(x @ w[:56] + w[56]))) - y
    gradient = np.append(error @ x, error.sum()) / RECORDS
    arrays = ArrayRecord([(w - 0.01 * gradient).astype(np.float32)])
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": RECORDS})})
    return Message(content=content, reply_to=message)


class Timed(FedAvg):
    """FedAvg that records the time at which each round has been averaged."""

    def aggregate_train(self, *args, **kwargs):
        result = super().aggregate_train(*args, **kwargs)
        ends.append(time.perf_counter())
        return result


@server.main()
def main(grid: Grid, context: Context) -> None:
    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=NODES)
    strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(57, np.float32)]), num_rounds=ROUNDS + 1)


resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
run_simulation(server, client, num_supernodes=NODES, backend_config=resources)
status = Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0])  # of this process; Ray's processes are not included
print(json.dumps({"times": np.diff(ends).tolist(), "memory": peak / 1024, "version": version("flwr")}))
