"""Runs with options of mixing methods: resumed, extended, verified, saved and analysed."""

import json

import pytest
import torch
from safetensors.torch import load_file

import tacit
from tacit.algorithms import MixingOptions
from tacit.errors import TacitError
from tacit.privacy import Coalition, ModelHolder
from tacit.runs import Config, from_config, resolved_config, verify
from tacit.runs.parts import build_algorithm
from tacit.threats import bound_against
from tests.runs.cases import SMALL, assert_same, interrupt_after, lines, small

OPTIONS = {"mixings": 2, "momentum": 0.6, "closing_rounds": 3, "averaging": "polyak", "weights": "records"}
UNEVEN = {"sharding": {"name": "sizes", "ratio": 4.0}}
DPPS = {"noise_rate": 0.01, "clip": 0.5, "sync_every": 0, "mixings": 2, "closing_rounds": 3, "averaging": "ema"}


def with_keys(**keys):
    return {"algorithm": {**SMALL["algorithm"], **keys}, **UNEVEN}


VARIANTS = {
    "all": with_keys(**OPTIONS),
    "momentum": with_keys(momentum=0.5),
    "closing": with_keys(closing_rounds=4),
    "sgpdp": {"algorithm": {"name": "sgpdp", **DPPS}},
    "sgpdp, certified": {"algorithm": {"name": "sgpdp", **DPPS, "sensitivity": "certified"}},
    "pedfl": {"algorithm": {"name": "pedfl", **DPPS}},
    "porter": {
        "algorithm": {"name": "porter", "sigma": 0.1, "closing_rounds": 2},
        "graph": {"name": "ring", "nodes": 5},
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_resumed_run_equals_the_uninterrupted_one_and_can_be_verified(variant, tmp_path):
    changes = VARIANTS[variant]
    small(**changes, out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    resumed = small(**changes, out=tmp_path / "run", resume=True)
    assert resumed.t == 7
    assert_same(resumed.go(), small(**changes).go())
    found = verify(tmp_path / "run")
    assert found.differences == ()
    assert any("planned" in line or "plans" in line for line in found.checked)


@pytest.mark.parametrize("call", [23, 25, 27])
def test_a_run_that_is_interrupted_while_it_closes_repeats_the_last_round(call, tmp_path):
    """Mixings 23 and 24 are those of the last of 12 rounds, 25 to 27 the closing ones."""
    run = small(**VARIANTS["all"], out=tmp_path / "run")
    real, calls = run.network.mix, []

    def mix(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    run.network.mix = mix
    run.go()
    assert (run.t, run.interrupted) == (11, True)
    assert_same(small(**VARIANTS["all"], out=tmp_path / "run", resume=True).go(), small(**VARIANTS["all"]).go())


def test_an_extended_run_closes_after_its_last_round(tmp_path):
    """Closing mixings of the end that was extended stay; those of a run that was interrupted before are made once."""
    changes = with_keys(closing_rounds=30)
    first = small(**changes, out=tmp_path / "one").go()
    spread = first.models.sub(first.models.mean(0)).abs().max()
    assert spread < 1e-5
    extended = small(**changes, out=tmp_path / "one", resume=True, extend=4)
    assert extended.models.equal(first.models)
    extended.go()
    assert extended.network.traffic.rounds == 16 + 2 * 30
    assert extended.models.sub(extended.models.mean(0)).abs().max() < 1e-5
    small(**changes, out=tmp_path / "two", observers=[interrupt_after(7)]).go()
    later = small(**changes, out=tmp_path / "two", resume=True, extend=4).go()
    assert later.network.traffic.rounds == 16 + 30
    assert lines(later) == lines(extended)
    assert lines(later)[:12] == lines(small(**with_keys()).go())
    assert (verify(tmp_path / "one").differences, verify(tmp_path / "two").differences) == ((), ())


def test_certified_sensitivity_is_not_extended_after_closing_mixings(tmp_path):
    changes = {"algorithm": {"name": "sgpdp", **DPPS, "sync_every": 3, "sensitivity": "certified"}}
    small(**changes, out=tmp_path / "run").go()
    with pytest.raises(TacitError, match=r"a run with algorithm\.closing_rounds cannot be extended"):
        small(**changes, out=tmp_path / "run", resume=True, extend=2)


def test_averages_are_evaluated_and_saved(tmp_path):
    run = small(**with_keys(averaging="polyak"), out=tmp_path / "run").go()
    plain = small(**with_keys()).go()
    assert run.checkpoint.state.inner.x.equal(plain.checkpoint.state.x)
    assert not run.models.equal(plain.models)
    saved = load_file(tmp_path / "run/models.safetensors")
    assert torch.cat([value.reshape(len(run.models), -1) for value in saved.values()], 1).equal(run.models)
    mean = run.mean_parameters()
    assert torch.allclose(mean, run.models.mean(0), atol=1e-6)
    assert run.evaluations[-1]["accuracy"] == pytest.approx(float(run.task.evaluate(mean).accuracy))
    assert run.privacy.covers_models


def test_closing_mixings_reduce_the_disagreement_of_nodes():
    apart, closed = (small(**with_keys(closing_rounds=c)).go() for c in (0, 6))
    spread = [run.models.sub(run.models.mean(0)).norm() for run in (apart, closed)]
    assert spread[1] < 0.1 * spread[0]
    assert lines(apart) == lines(closed)
    assert apart.privacy == closed.privacy


def test_epsilon_of_a_calibrated_run_does_not_change():
    target = {"privacy": {"epsilon": 2.0, "delta": 1e-4}, **UNEVEN}
    plain, changed = (
        small(**target, algorithm={"name": "dyn-d2p", **keys}).go() for keys in ({}, {**OPTIONS, "weights": "equal"})
    )
    assert lines(plain) == lines(changed)
    assert plain.privacy.guaranteed == changed.privacy.guaranteed
    weighted = small(**target, algorithm={"name": "dyn-d2p", **OPTIONS}).go()
    assert lines(plain) == lines(weighted)
    assert plain.privacy.guaranteed == weighted.privacy.guaranteed


def test_bounds_of_mixing_only_methods_are_not_used():
    for keys in ({"momentum": 0.5}, {"closing_rounds": 2}, {"mixings": 2}, {"averaging": "ema"}):
        run = small(**with_keys(**keys))
        for adversary in (Coalition((1,)), ModelHolder("mean")):
            bound = bound_against(run, adversary, planned=True)
            (option,) = keys
            assert f"no mixing bound is known with algorithm.{option}" in bound.reason
            assert bound.epsilon == run.planned().guaranteed
    weighted = small(**with_keys(weights="records"))
    assert bound_against(weighted, ModelHolder("mean"), planned=True).epsilon < weighted.planned().guaranteed


def test_configs_contain_options_only_if_one_is_used():
    """A run of an earlier version can be resumed, because its config is still the same."""
    plain = resolved_config(Config.parse(SMALL)).algorithm.parameters
    assert not set(plain) & {"momentum", "mixings", "averaging"}
    used = resolved_config(Config.parse(SMALL | with_keys(averaging="ema"))).algorithm.parameters
    assert (used["averaging"], used["averaging_decay"], used["momentum"]) == ("ema", 0.9, 0.0)
    again = Config.parse({**SMALL, "algorithm": {"name": "dyn-d2p", **used}})
    assert resolved_config(again).algorithm.parameters == used
    explicit = Config.parse(SMALL | with_keys(momentum=0.0, mixings=1))
    assert resolved_config(explicit).algorithm.parameters == plain


def test_options_in_python():
    given = {"algorithm": "const-d2p", "nodes": 4, "rounds": 3, "batch": 8, "noise_multiplier": 1.0}
    run = tacit.train(**given, momentum=0.5, closing_rounds=2)
    assert run.algorithm.mixing == MixingOptions(momentum=0.5, closing_rounds=2)
    assert run.network.traffic.rounds == 5
    with pytest.raises(TacitError, match=r"momentum = 1\.5 should be less than 1"):
        tacit.train(**given, momentum=1.5)
    with pytest.raises(TacitError, match=r"PORTER-DP does not accept momentum=: it tracks"):
        tacit.train(algorithm="porter", nodes=4, graph="ring", rounds=3, sigma=0.1, momentum=0.5)
    with pytest.raises(TacitError, match='did you mean "momentum"'):
        from_config(Config.parse(SMALL | with_keys(momentun=0.5)))


def test_a_parameter_of_the_method_has_precedence():
    """PriSMA and DP-ADMM have a parameter `average` of their own."""
    prisma = build_algorithm(Config.parse({"algorithm": {"name": "prisma", "average": "gossip"}}).algorithm)
    assert (prisma.average, prisma.mixing.averaging) == ("gossip", "none")


def test_traffic_counts_the_mixings_and_the_result_the_rounds(tmp_path):
    run = small(**with_keys(mixings=2, closing_rounds=3), out=tmp_path / "run").go()
    assert run.network.traffic.rounds == 12 * 2 + 3
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["rounds"] == 12
