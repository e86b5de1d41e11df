"""A small config for sweeps."""

SMALL = {
    "rounds": 3,
    "graph": {"name": "complete", "nodes": 4},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5},
    "privacy": {"epsilon": 3.0, "delta": 1e-3},
}
SECRET = {**SMALL, "noise": "secret", "sharding": "digest"}
GRID = {"lr": [0.05, 0.5], "clip": [0.5, 1.0]}
OPTIONS = ["--set", "rounds=3", "--set", "graph=complete", "--set", "graph.nodes=4", "--set", "privacy.delta=1e-3"]
COMMAND = ["sweep", "--grid", "lr=0.05,0.5", "--grid", "clip=0.5,1", *OPTIONS]
