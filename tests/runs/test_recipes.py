"""Recipes: chosen by public facts, with the user's own settings first."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tacit
from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.privacy import Gaussian, Release, Sampling, calibrate
from tacit.runs import RECIPES, Config, PublicFacts, UserParts, apply_recipe, fitting_recipe, from_config, verify
from tacit.runs.recipes.adaptation import Setting, StepSize
from tacit.tasks import Dataset, Target

GOAL = {"epsilon": 3.0, "delta": 1e-3}
AUTO = {"algorithm": "auto", "privacy": GOAL}


def pictures(seed=0, side=16, count=120):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 1, side, side, generator=generator)
    y = torch.randint(0, 3, (count,), generator=generator)
    return Dataset("pictures", x, y, x[:20], y[:20], Target.of_classes(3))


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_has_settings_that_a_config_accepts(name):
    recipe = RECIPES[name]
    assert recipe.about
    config = Config.parse(dict(recipe.settings))
    algorithms.check(config.algorithm.name, {}, ())
    assert config.algorithm.parameters["lr"] > 0


def test_the_recipe_depends_on_shape_and_target_only():
    facts = PublicFacts((1, 28, 28), "class")
    assert fitting_recipe(facts).name == "images-2"
    assert fitting_recipe(PublicFacts((3, 32, 32), "class")).name == "photos-1"
    assert fitting_recipe(PublicFacts((3, 28, 28), "class")).name == "images-2"
    assert fitting_recipe(PublicFacts((1, 8, 8), "class")).name == "vectors-2"
    assert fitting_recipe(PublicFacts((123,), "number")).name == "values-1"
    assert fitting_recipe(PublicFacts((123,), "number", plain=True)).name == "vectors-1"
    assert fitting_recipe(facts, "vectors-2").name == "vectors-2"
    one, other = (apply_recipe(Config.parse(AUTO), UserParts(data=pictures(seed)))[0] for seed in (0, 1))
    assert one == other
    with pytest.raises(TacitError, match="no recipe is for tokens"):
        fitting_recipe(PublicFacts((12,), "class", tokens=True))
    with pytest.raises(TacitError, match="recipe images-2 is not for vectors of shape"):
        fitting_recipe(PublicFacts((12,), "class"), "images-2")
    with pytest.raises(TacitError, match='unknown recipe "images-1"; did you mean "images-2"'):
        fitting_recipe(facts, "images-1")


def test_plain_records_have_a_recipe_of_their_own():
    plain = PublicFacts((1, 28, 28), "class", plain=True)
    assert fitting_recipe(plain).name == "vectors-1"
    with pytest.raises(TacitError, match=r"images-2 is not for models of your own or columns of range = \"private\""):
        fitting_recipe(plain, "images-2")
    assert apply_recipe(Config.parse({**AUTO, "model": "mlp"}))[0].recipe == "vectors-1"
    assert apply_recipe(Config.parse({**AUTO, "model": "logistic"}))[0].recipe == "vectors-2"


def test_the_config_has_the_settings_of_the_recipe():
    config, _ = apply_recipe(Config.parse(AUTO))
    settings = RECIPES["vectors-2"].settings
    assert config.recipe == "vectors-2"
    assert {**config.algorithm.model_dump(), "lr": 64.0} == settings["algorithm"]
    assert (config.rounds, config.batch.size) == (settings["rounds"], None)
    assert config.privacy.shares == {"mean": 0.03, "gradients": 0.97}
    assert config.privacy.model_copy(update={"shares": None}) == Config.parse(AUTO).privacy
    assert apply_recipe(config) == (config, UserParts())  # nothing changes a second time


def test_less_noise_has_larger_steps_and_more_statistics():
    def made(**goal):
        return apply_recipe(Config.parse({**AUTO, "privacy": {**GOAL, **goal}}))[0]

    weak, strong = made(epsilon=1.0), made(epsilon=3.0)
    paired, large = made(noise="paired", colluders=2), made(epsilon=30.0)
    lrs = [each.algorithm.parameters["lr"] for each in (weak, strong, paired, large)]
    assert lrs == sorted(set(lrs))
    assert (strong.algorithm.parameters.get("mixings", 1), paired.algorithm.parameters["mixings"]) == (1, 2)
    assert set(weak.privacy.shares) == {"mean", "gradients"}
    assert set(large.privacy.shares) == {"mean", "gram", "gradients"}


def test_the_number_of_nodes_is_that_of_the_graph():
    """Named in the config, by default, or given as an object."""

    def lr(table, graph=None):
        return apply_recipe(Config.parse({**AUTO, **table}), UserParts(graph=graph))[0].algorithm.parameters["lr"]

    four, ten = lr({"graph": {"nodes": 4}}), lr({"graph": {"nodes": 10}})
    assert lr({}, graphs.build("ring", {"nodes": 4})) == four > ten
    assert lr({}) == lr({"graph": "ring"}) == ten


@pytest.mark.parametrize("goal", [{"shares": {"mean": 0.5, "gradients": 0.5}}, {"calibration": "paper"}])
def test_shares_are_the_users(goal):
    config, _ = apply_recipe(Config.parse({**AUTO, "privacy": {**GOAL, **goal}}))
    assert config.privacy.shares == goal.get("shares")


def test_the_signal_is_that_of_the_noise_in_the_mean():
    """The noise multiplier of one release over the whole run, √n / (records · μ), by the accountant."""
    one = Setting(1000, 4, 2.0, 1e-4)
    z = calibrate(lambda s: [Release(0, "g", Gaussian(s), Sampling("none", np.ones(1), "add-remove"))], 2.0, 1e-4)
    assert one.signal == pytest.approx(1000 / (z * np.sqrt(4)), rel=3e-3)
    assert Setting(1000, 4, 2.0, 1e-4, colluders=1).signal == pytest.approx(one.signal * np.sqrt(3))
    assert Setting(1000, 4, 2.0, 1e-4, share=0.25).signal == pytest.approx(one.signal / 2)
    assert StepSize(8.0, one.signal, 0.5).at(replace(one, records=4000)) == 16.0


def test_settings_of_the_config_win():
    given = {
        **AUTO,
        "rounds": 200,
        "algorithm": {"name": "auto", "lr": 0.25},
        "batch": {"size": 32},
        "graph": {"name": "ring", "nodes": 4},
        "data": {"name": "digits", "normalise": "unit"},
    }
    config, _ = apply_recipe(Config.parse(given))
    assert (config.rounds, config.batch.size, config.graph.name) == (200, 32, "ring")
    assert config.algorithm.parameters["lr"] == 0.25
    assert config.algorithm.parameters["momentum"] == RECIPES["vectors-2"].settings["algorithm"]["momentum"]
    assert config.data.parameters == {"normalise": "unit"}


def test_features_belong_to_the_model_of_the_recipe():
    data = pictures()
    config, parts = apply_recipe(Config.parse(AUTO), UserParts(data=data))
    assert config.data.parameters["features"] == ["gradients", "scattering"]
    assert parts.data is data  # features are computed where the run is built
    assert len(from_config(config, parts).task.data.inputs) == 1
    own = {**AUTO, "model": "cnn"}
    config, parts = apply_recipe(Config.parse(own), UserParts(data=data))
    assert (config.model.name, parts.data.inputs) == ("cnn", data.inputs)
    assert "features" not in config.data.parameters
    module = nn.Sequential(nn.Flatten(), nn.Linear(256, 3))
    assert apply_recipe(Config.parse(AUTO), UserParts(data=data, model=module))[1].data.inputs == data.inputs


def test_tokens_have_a_recipe_if_features_turn_them_into_numbers():
    rng = np.random.default_rng(0)
    tokens = Dataset.from_arrays(rng.integers(0, 9, (80, 5)), np.arange(80) % 2, labels=[0, 1], tokens=True)

    def counts(record):
        return torch.bincount(record, minlength=9).float()

    run = tacit.train("logistic", tokens, features=[counts], algorithm="auto", nodes=3, rounds=2, epsilon=3.0)
    assert run.config["recipe"] == "vectors-2"
    assert run.task.data.inputs == (9,)
    with pytest.raises(TacitError, match=r"no recipe is for tokens of shape \(5,\) .*: name a method \(tacit list\)"):
        tacit.train("logistic", tokens, algorithm="auto", nodes=3, epsilon=3.0)


def test_a_run_names_its_recipe_and_can_be_verified_and_repeated(tmp_path):
    config = Config.parse({**AUTO, "rounds": 2, "graph": {"nodes": 4}})
    run = from_config(config, out=tmp_path / "run").go()
    assert run.result()["recipe"] == "vectors-2"
    assert json.loads((tmp_path / "run" / "result.json").read_text())["recipe"] == "vectors-2"
    saved = Config.load(tmp_path / "run" / "config.toml")
    assert (saved.recipe, saved.algorithm.name) == ("vectors-2", "const-d2p")
    verify(tmp_path / "run").require()
    assert torch.equal(from_config(saved).go().models, run.models)


def test_python_sets_what_has_its_default():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 6)).astype(np.float32), rng.integers(0, 2, 200)
    run = tacit.train(data=data, labels=[0, 1], algorithm="auto", nodes=4, rounds=3, lr=0.5, epsilon=3.0, delta=1e-3)
    assert run.config["recipe"] == "vectors-2"
    assert (run.rounds, run.config["batch"]["size"], run.config["algorithm"]["lr"]) == (3, "all", 0.5)
    with pytest.raises(TacitError, match='"lrr"'):
        tacit.train(algorithm="auto", lrr=0.5, epsilon=3.0, rounds=1)


def test_without_a_target_nothing_is_guessed():
    with pytest.raises(TacitError, match=r"set privacy\.epsilon"):
        from_config(Config.parse({"algorithm": "auto"}))
