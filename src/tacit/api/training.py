"""`tacit.train`: a run in one call, from names or from a user's own objects."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from tacit.algorithms import Algorithm
from tacit.api.arguments import EvaluationCallback, adapt_observers
from tacit.api.data import Data, Test, adapt_data
from tacit.api.features import GivenFeatures
from tacit.api.messages import python_errors
from tacit.api.parts import GivenParts, Sharding, set_values
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy import weak_protection
from tacit.runs import Batch, Config, Observer, PrivacyTarget, Run, batch_relation, from_config
from tacit.tasks import Clipping, FeatureName, Head, Label, Model, Precision, Target, fitting_split

if TYPE_CHECKING:
    import networkx as nx


def train(
    model: str | nn.Module | Model = "logistic",
    data: Data = "digits",
    *others: object,
    target: str | Target | None = None,
    labels: Sequence[Label] | None = None,
    test: Test | None = None,
    features: Sequence[FeatureName] | None = None,
    whiten: str = "none",
    rank: int | None = None,
    task: str | Head = "auto",
    algorithm: str | Algorithm[Any] | None = None,
    graph: str | Graph | nx.Graph = "one-peer-exponential",
    nodes: int | None = None,
    rounds: int = 200,
    seed: int = 0,
    noise: Literal["simulated", "secret"] = "simulated",
    device: str = "cpu",
    precision: Precision = "float32",
    batch: int | None = 32,
    sampling: Literal["poisson", "without-replacement", "permutation", "cyclic"] = "poisson",
    relation: Literal["add-remove", "replace-one"] | None = None,
    clipping: Clipping = "method",
    augmentations: int = 1,
    augment: Sequence[str] = ("flip", "shift"),
    sharding: Sharding | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    calibration: Literal["guaranteed", "paper"] = "guaranteed",
    budget: float | None = None,
    population: str | None = None,
    population_budget: float | None = None,
    ranges_epsilon: float | None = None,
    shares: dict[str, float] | None = None,
    correlation: Literal["none", "time"] = "none",
    bandwidth: int | None = None,
    colluders: int | None = None,
    ratio: float | None = None,
    keys: str | None = None,
    evaluate_every: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    extend: int = 0,
    progress: bool = False,
    observers: Sequence[Observer | EvaluationCallback] = (),
    **hyperparameters: Any,
) -> Run:
    """Train a model over a graph of nodes in this process, and account for its privacy.

    By default this is a simulation, which protects nobody. With `noise="secret"` the noise is real, and the run is
    added to the records ledger, which adds up all such runs on the same records.

    Data, sharding, model, graph and algorithm are registered names (`tacit list`) or your own objects. The defaults are
    the same for all data. The example of the command `tacit train` has a learning rate that was chosen for it, and
    another δ: it is `train(lr=0.5, delta=1e-4)`.

    Args:
        model: A name, a `torch.nn.Module`, or a `tacit.Model`.
        data: A name, a `tacit.Dataset`, (x, y) as arrays, lists or tensors, a pandas data frame with numeric features
            and a `target` column, or a map-style torch `Dataset` of items (x, y), which are read once. A list has the
            data of one node per entry, in one of these forms; there are as many nodes as entries.
        target: The column of a data frame that has the labels; or a `tacit.Target`, if the labels are not classes.
        labels: The classes of your own records, in their order. A guarantee needs them: otherwise they are learnt
            from the records, which only an algorithm without privacy accepts.
        test: Test records in one of the forms of `data`, or the share of the records to hold out; 0.2 by default.
        features: Replace each record by features before training: names (`tacit list`), "path/to/file.py:function",
            functions of one record, or frozen modules. No record may have shaped them (docs/features.md).
        whiten: With what features are whitened: "none", "shapes" (synthetic pictures), or a public data set.
        rank: How many directions the whitening keeps, at most.
        task: What the model learns: a name (`tacit list`), or a `tacit.Head`, which also sets parameters such as
            class weights. "auto" fits the targets of the data; one output for two classes is a logit.
        algorithm: A name, or an `Algorithm`. The default is dyn-d2p, with epsilon=3 unless you set the noise.
        graph: A name, a `tacit.Graph`, or a networkx graph.
        nodes: The number of nodes of a graph given by name; 10 by default.
        rounds: The number of rounds.
        seed: Determines initial parameters, batches and noise: the same seed gives the same run.
        noise: "simulated" derives noise and batches from the seed; "secret" from a key of the operating system. With
            `out`, the key is stored there until the run has ended, so that the run can be resumed. Keep the folder
            private until then. Without `out`, no key is stored.
        device: Where the run computes: "cpu", "cuda", "cuda:1", "mps", or "auto" for the first of them that exists.
        precision: "bf16" computes forward and backward passes in bfloat16. The guarantee is the same.
        batch: The (expected) batch size per node; None uses all records of a node in every step.
        sampling: How batches are drawn.
        relation: Neighbouring data sets: one record added or removed, or one record replaced. The default is
            add-remove for Poisson sampling and replace-one otherwise.
        clipping: "method" clips gradients as the algorithm does; "automatic" normalises them to its bound.
        augmentations: The number of random copies of each image. Their mean gradient is clipped.
        augment: How the copies differ: "flip", "shift".
        sharding: A name ("iid" by default), or one array of record indices per node.
        epsilon: Calibrate the noise for this ε. Without it, the algorithm's own noise parameters apply.
        delta: The δ of all guarantees.
        calibration: "guaranteed" makes `epsilon` the guaranteed ε; "paper" uses the paper's formula.
        budget: Stop before the first release that would exceed this guaranteed ε. The default is a guaranteed
            `epsilon`.
        population: With secret noise: the name of the population of these records. Declare it if they change.
        population_budget: With secret noise: refuse the run if all runs on the population would exceed this ε.
        ranges_epsilon: With columns of range = "private": the part of `epsilon` for the release of their ranges. The
            default is a tenth of `epsilon`.
        shares: Divide the privacy between statistics that prepare the records ("ranges", "mean", "gram") and the
            "gradients", as shares of μ². Their sum is 1.
        correlation: "time" correlates the noise of the steps, so that less of it remains in the model at the same ε. It
            needs `sampling="cyclic"`, and a method of the D²P family or dp-sgd.
        bandwidth: Over how many steps it is correlated, at most. The default is an epoch.
        colluders: Use paired noise, whose ε holds against an eavesdropper who colludes with any so many nodes.
        ratio: With `colluders`: variance of a pair's noise ÷ that of a node's own. The default is 3.
        keys: With `colluders`: which nodes share keys: "complete", "regular", "graph" or a file with two nodes per
            line. The default is "complete" up to 64 nodes, else "regular".
        evaluate_every: Rounds between two evaluations; by default there are about 20 evaluations.
        out: A new folder for config, ledger, history, models, checkpoint and report. By default nothing is written.
        resume: Continue the run in `out` from its last checkpoint, with the same arguments as before. Other settings
            or other records than those in the run's ledger are refused.
        extend: With `resume`, continue the run for so many more rounds, with the same noise, schedules and budget.
        progress: Show progress on standard error.
        observers: Notified of the start, every round, every evaluation and the end (`tacit.Observer`). A function is
            called with (run, row) after every evaluation.
        hyperparameters: The hyperparameters of an algorithm given by name, such as lr=0.1 and clip=1.0. They are the
            keys of [algorithm] in a config.

    Returns:
        The finished run: `models`, `history`, `utility`, `privacy`, and `stopped` if it ended early.

    Raises:
        TacitError: An argument is not accepted, or the run fails, for example because it diverges.

    Example:
        >>> run = train(algorithm="const-d2p", lr=0.5, nodes=4, rounds=5, epsilon=2.0, delta=1e-3)
        >>> run.privacy.guaranteed <= 2.0, len(run.models), len(run.history)
        (True, 4, 6)
    """
    _check_arguments(others, out, resume, extend)
    with python_errors():
        given = GivenParts(model, data, task, algorithm, graph, nodes, sharding, GivenFeatures(features, whiten, rank))
        config = _config(locals(), given)
        _warn_of_weak_protection(config)
        parts = given.objects(adapt_data(data, target, labels, test, fitting_split(batch_relation(config.batch))))
        how: dict[str, Any] = {"out": None if out is None else Path(out), "resume": resume, "extend": extend}
        return from_config(config, parts, **how, observers=adapt_observers(observers, progress), secret_noise=True).go()


def _config(arguments: Mapping[str, Any], parts: GivenParts) -> Config:
    """The config of these arguments of `train`."""
    algorithm = arguments["algorithm"]
    general = {key: arguments[key] for key in ("seed", "noise", "device", "precision", "rounds", "evaluate_every")}
    drawn = "sampling", "relation", "clipping", "augmentations", "augment"
    batch = {"size": arguments["batch"], **{key: arguments[key] for key in drawn}}
    sections = {
        **parts.sections(arguments["hyperparameters"], _ARGUMENTS),
        "batch": set_values(algorithm, Batch, **batch),
        "privacy": _privacy_goal(arguments, parts),
    }
    return Config.parse({**set_values(algorithm, Config, **general), **sections}, "tacit.train")


def _privacy_goal(arguments: Mapping[str, Any], parts: GivenParts) -> dict[str, Any]:
    """The section [privacy] of these arguments. Their `noise` is that of the run, and not that of the section."""
    needless = [key for key in ("ratio", "keys") if arguments[key] is not None]
    if needless and arguments["colluders"] is None:
        raise TacitError(f"{needless[0]} has an effect only with paired noise: set colluders")
    paired = "independent" if arguments["colluders"] is None else "paired"
    given = {key: value for key, value in arguments.items() if key in PrivacyTarget.model_fields}
    if given["epsilon"] is None and given["budget"] is None:
        given["epsilon"] = parts.default_epsilon(arguments["hyperparameters"])
    return {**given, "noise": paired}


_VARIABLE = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_ARGUMENTS = tuple(name for name, each in inspect.signature(train).parameters.items() if each.kind not in _VARIABLE)


def _warn_of_weak_protection(config: Config) -> None:
    if (weak := weak_protection(config.privacy.epsilon or 0.0)) is not None:
        warnings.warn(weak, stacklevel=3)


def _check_arguments(others: tuple[Any, ...], out: str | Path | None, resume: bool, extend: int) -> None:
    if others:
        raise TacitError("pass the records as one pair: tacit.train(model, (x, y))")
    if resume and out is None:
        raise TacitError("resume=True needs out=, the folder of the run to resume")
    if extend < 0 or (extend and not resume):
        raise TacitError(f"extend must be a number of rounds to add and needs resume=True, got {extend}")
