"""Hyperparameters as keyword arguments, as in scikit-learn."""

import numpy as np
import pytest
import torch

import tacit
from tacit.algorithms import algorithms, const_d2p
from tacit.runs import Config, from_config
from tests.api.cases import quick
from tests.runs.cases import assert_same


def refused(words):
    return pytest.raises(tacit.TacitError, match=words)


def test_train_without_arguments():
    run = tacit.train()
    assert run.t == 200
    assert run.utility.metrics["accuracy"] > 0.5
    assert 2.9 < run.privacy.guaranteed <= 3.0
    assert run.privacy.simulated
    assert run.config["privacy"]["epsilon"] == 3.0


def test_the_default_target_needs_no_noise_setting():
    given = {"rounds": 2, "nodes": 4}
    assert tacit.train(lr=0.3, **given).config["privacy"]["epsilon"] == 3.0
    chosen = tacit.train(noise_multiplier=2.0, **given)
    assert "epsilon" not in chosen.config["privacy"]
    assert chosen.config["algorithm"]["noise_multiplier"] == 2.0


def test_hyperparameters_are_the_keys_of_the_config(tmp_path):
    by_keywords = tacit.train(
        algorithm="const-d2p", lr=np.float64(0.3), clip=0.5, epsilon=2.0, rounds=3, nodes=4, out=tmp_path / "run"
    )
    section = {"name": "const-d2p", "lr": 0.3, "clip": 0.5}
    config = {"rounds": 3, "graph": {"nodes": 4}, "algorithm": section, "privacy": {"epsilon": 2.0}}
    by_config = from_config(Config.parse(config), out=tmp_path / "other").go()
    assert_same(by_keywords, by_config)
    assert by_keywords.config == by_config.config
    assert (tmp_path / "run/config.toml").read_text() == (tmp_path / "other/config.toml").read_text()


def test_clipping_and_copies_of_images_are_arguments():
    given = {"clipping": "automatic", "augmentations": 2, "augment": ["flip"]}
    run = tacit.train("cnn", algorithm="const-d2p", lr=0.3, epsilon=2.0, rounds=2, nodes=4, batch=8, **given)
    table = {**run.config, "batch": {"size": 8, **given}}
    assert run.task.clipping == "automatic"
    assert torch.equal(run.models, from_config(Config.parse(table)).go().models)
    with refused("augment = .*Input should be a list of flip, shift|augment"):
        tacit.train("cnn", augmentations=2, augment=["turn"])


@pytest.mark.parametrize("name", list(algorithms))
def test_every_hyperparameter_of_every_algorithm_is_a_keyword(name):
    with refused(f'unknown hyperparameter "not_a_hyperparameter" of {name}; available') as refusal:
        tacit.train(algorithm=name, not_a_hyperparameter=1)
    listed = str(refusal.value).partition("available: ")[2].split(", ")
    assert set(listed) == set(algorithms.options(name))


def test_lists_and_tuples_are_the_same_hyperparameter():
    given = {"algorithm": "d2p", "noise_multiplier": [2.0] * 3, "rounds": 3, "nodes": 4}
    one, other = (tacit.train(clip=clip, **given) for clip in ((1.0, 0.9, 0.8), [1.0, 0.9, 0.8]))
    assert one.config == other.config
    assert torch.equal(one.models, other.models)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"leaning_rate": 0.1}, '"leaning_rate" of const-d2p; did you mean "lr"\\?'),
        ({"max_grad_norm": 1.0}, '"max_grad_norm" of const-d2p; did you mean "clip"\\?'),
        ({"epsilom": 1.0}, 'did you mean "epsilon"\\?'),
        ({"batch_size": 8}, 'did you mean "batch"\\?'),
        ({"callbacks": []}, 'did you mean "observers"\\?'),
        ({"epochs": 3}, "rounds= sets the length of a run"),
        ({"criterion": torch.nn.CrossEntropyLoss()}, "task= sets the loss"),
        ({"optimizer": "sgd"}, "remove the optimiser, and set algorithm= and lr="),
        ({"lr": "fast"}, "algorithm const-d2p: lr = 'fast' should be a valid number"),
        ({"clip": None}, "clip=None cannot be part of a config: leave clip out, or pass an Algorithm object"),
        ({"lr": lambda t: 1 / t}, "lr must be a number, a text or a list of them, got function"),
        ({"rho_c": 2.0}, '"rho_c" of const-d2p'),
    ],
)
def test_wrong_hyperparameters(given, words):
    with refused(words):
        quick(algorithm="const-d2p", noise_multiplier=1.0, **given)


def test_an_algorithm_object_has_its_own_hyperparameters():
    with refused(r"lr= cannot be set beside an Algorithm object: set hyperparameters in D2P\(...\)"):
        tacit.train(algorithm=const_d2p(noise_multiplier=1.0), lr=0.1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no noise level: set epsilon= or noise_multiplier=$"),
        ({"noise_multiplier": 1.0, "epsilon": 2.0}, "^epsilon= and noise_multiplier= both set the noise: remove one"),
        ({"epsilon": -1.0}, "^tacit.train: epsilon = -1.0 should be greater than 0"),
        ({"noise_multiplier": 1.0, "batch": 500}, "^batch is 500, but node 1 has only 359 records"),
        ({"algorithm": "sgp", "epsilon": 1.0}, "leave out epsilon=, or"),
        ({"algorithm": "sgp", "budget": 1.0}, "remove budget=, or"),
        ({"algorithm": "ppgl"}, "ppgl learns a graph, not a model"),
    ],
)
def test_errors_name_arguments_and_no_keys_of_a_config(given, words):
    with refused(words):
        tacit.train(**{"algorithm": "const-d2p", "rounds": 2, "nodes": 4, **given})
