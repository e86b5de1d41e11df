"""Small tasks and other helpers that several tests share."""

import hashlib
import inspect
import signal

import numpy as np
import torch

from tacit.algorithms import Stepper, algorithms
from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks import Dataset, Model, Target, Task, datasets, models, shards


def example_algorithm(name, rounds, **params):
    """The registered algorithm with the parameters of its example, for `rounds` rounds.

    If the example has a list with one value per round, a single value stands for a list of it.
    """
    example = algorithms.example(name)
    lists = {key for key, value in example.items() if isinstance(value, list)}
    params = {key: [v] * rounds if key in lists and not isinstance(v, list) else v for key, v in params.items()}
    return algorithms.build(name, example | params).with_rounds(rounds)


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
    normalise="none",
    weighting="equal",
    **placed,
):
    """The digits data at several nodes.

    `options` are the model's parameters, `share` the names of the parameters that are shared, `bounds` which gradients
    are clipped. `placed` are the task's device and precision.
    """
    data = datasets.build("digits", {"normalise": normalise})
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
        weighting=weighting,
        **placed,
    )


def adds_noise(name):
    """Whether a registered algorithm adds noise, so that it can be calibrated."""
    try:
        algorithms.build(name, algorithms.example(name)).with_noise(np.ones(1))
    except TacitError:
        return False
    return True


def required_parameters(name):
    """The parameters without a default, from the algorithm's example."""
    accepted, example = algorithms.parameters(name), algorithms.example(name)
    required = {key: value for key, value in example.items() if accepted[key].default is inspect.Parameter.empty}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in required.items()}


def quadratic_task(nodes=6, d=3, *, records=4, seed=0, dtype=torch.float64, shared=None, **batches):
    """A task whose mean loss has its optimum at the mean of all records.

    Of d columns the first `shared` are shared (None: all); the optimum of the others is the mean of a node's records.
    """
    return _task_of_loss(lambda w, x, y: ((w - x) ** 2).sum() / 2, nodes, d, records, seed, dtype, shared, **batches)


def constant_task(nodes=6, d=3, *, records=4, seed=0, dtype=torch.float64, shared=None, **batches):
    """The same with a constant loss: all gradients are 0."""
    return _task_of_loss(lambda w, x, y: (0 * w * x).sum(), nodes, d, records, seed, dtype, shared, **batches)


def _task_of_loss(loss, nodes, d, records, seed, dtype, shared, **batches):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(nodes * records, d)) + np.repeat(rng.normal(size=(nodes, 1)), records, 0))
    y = torch.arange(len(x)) % 2
    data = Dataset("quadratic", x.float(), y, x.float(), y, Target.of_classes(2))
    model = Model.from_loss(loss, torch.zeros(d, dtype=dtype), shared)
    parts = np.split(np.arange(len(x)), nodes)
    return Task(model, data, parts, noise=Noise.from_seed(seed), dtype=dtype, **batches)


def content_digest(data):
    """A digest of all training and test records, in their order."""
    digest = hashlib.sha256()
    for part in (data.x, data.y, data.test_x, data.test_y):
        digest.update(part.numpy().tobytes())
    return digest.hexdigest()[:16]


def noised(task, law, value, scale, purpose, node, step):
    """`value` (d,) with the noise and rounding of the package, for oracles that compute everything else themselves."""
    x = torch.tensor(value, dtype=torch.float64)[None]
    getattr(task.noise, f"{law}_")(x, np.array([scale]), f"noise/{purpose}", np.array([node]), step)
    return x[0].numpy()


def run_rounds(algorithm, task, network, rounds):
    state = algorithm.start(task, network.graph)
    for t in range(rounds):
        state = algorithm.round(t, state, task, network)
    return state


def run_steps(algorithm, task, network, rounds, closes=True):
    """The same with the options of the algorithm; returns its models and the state."""
    stepper = Stepper(algorithm)
    state = stepper.start(task, network.graph)
    for t in range(rounds):
        state = stepper.step(t, state, task, network, last=closes and t + 1 == rounds)
    return stepper.models(state), state


def accept_ctrl_c():
    """Make a process that a test starts react to Ctrl-C; if the tests run in the background, it would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
