"""Small tasks the tests share."""

import signal

import numpy as np
import torch

from tacit.privacy.noise import Noise
from tacit.tasks import Dataset, Model, Task, datasets, models, shards


def digits_task(
    nodes=5,
    *,
    batch=8,
    sampling="poisson",
    seed=0,
    model="logistic",
    options=None,
    dtype=torch.float32,
    sizes=None,
    engine="auto",
    share=None,
    bounds="shared",
    weight_decay=0.0,
    epochs=1,
):
    """`options` are the model's parameters; `share` and `bounds` say what of it is sent, and what is clipped."""
    data = datasets.build("digits")
    torch.manual_seed(0)
    module = models.build(model, {"inputs": data.inputs, "classes": data.classes, **(options or {})})
    how = ("iid", {}) if sizes is None else ("sizes", {"sizes": sizes})
    parts = shards.build(how[0], {"labels": data.y.numpy(), "nodes": nodes, "seed": seed, **how[1]})
    return Task(
        Model(module, share=share, engine=engine, bounds=bounds, weight_decay=weight_decay),
        data,
        parts,
        batch=batch,
        sampling=sampling,
        epochs=epochs,
        noise=Noise.from_seed(seed),
        dtype=dtype,
    )


def quadratic_task(nodes=6, d=3, *, records=4, seed=0, dtype=torch.float64, shared=None, **batches):
    """Every record pulls towards itself: the optimum of the mean loss is the mean of all records.

    Of d columns the first `shared` are shared (None: all); the others go to the mean of a node's own records.
    """
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(nodes * records, d)) + np.repeat(rng.normal(size=(nodes, 1)), records, 0))
    y = torch.arange(len(x)) % 2
    data = Dataset("quadratic", x.float(), y, x.float(), y, 2)
    model = Model.from_loss(lambda w, x, y: ((w - x) ** 2).sum() / 2, torch.zeros(d, dtype=dtype), shared)
    parts = np.split(np.arange(len(x)), nodes)
    return Task(model, data, parts, noise=Noise.from_seed(seed), dtype=dtype, **batches)


def noised(task, law, value, scale, purpose, node, step):
    """`value` (d,) as the node releases it, for oracles that know everything but the noise and the grid it ends on."""
    x = torch.tensor(value, dtype=torch.float64)[None]
    getattr(task.noise, f"{law}_")(x, np.array([scale]), f"noise/{purpose}", np.array([node]), step)
    return x[0].numpy()


def run_rounds(algorithm, task, network, rounds):
    state = algorithm.start(task, network.graph)
    for t in range(rounds):
        state = algorithm.round(t, state, task, network)
    return state


def heed_ctrl_c():
    """For a process to be started: where the tests themselves run in the background, it would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
