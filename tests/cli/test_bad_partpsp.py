"""Invalid input for partial sharing and for the methods over DPPS: one sentence, exit code 2, no files left."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import NO_TARGET, QUICK, setting
from tests.cli.test_bad_input import refused

PARTPSP = [*QUICK, *NO_TARGET, *setting("model=mlp", "algorithm=partpsp", 'algorithm.share=["0.*"]')]
NOISE = setting("algorithm.noise_rate=1")
NAMES = "0.weight, 0.bias, 2.weight, 2.bias"


@pytest.mark.parametrize("name", ["partpsp", "sgpdp", "pedfl"])
def test_a_graph_that_is_not_doubly_stochastic_is_refused(tacit, name):
    Path("links").write_text("0 1\n1 2\n2 3\n3 0\n0 2\n")
    share = setting('algorithm.share=["0.*"]') if name == "partpsp" else []
    directed = setting("graph=edges", "graph.path=links")
    ended = tacit("train", *QUICK, *NO_TARGET, *setting(f"algorithm={name}"), *share, *NOISE, *directed)
    reason = "has rows that sum to 1.33 (node 2): use a regular graph such as d-out or one-peer-exponential"
    refused(ended, "needs a doubly-stochastic graph", reason, left=["links"])


def test_dropout_on_a_directed_graph_is_refused(tacit):
    refused(tacit("train", *PARTPSP, *NOISE, *setting("graph.drop_links=0.2")), "rows that", "no drop-out")


@pytest.mark.parametrize("name", ["partpsp", "dyn-d2p"])
@pytest.mark.parametrize(
    ("share", "words"),
    [
        ('["3.*"]', f'share pattern "3.*" matches no parameter; the parameters are: {NAMES}'),
        ('["0.*", "hidden"]', f'share pattern "hidden" matches no parameter; the parameters are: {NAMES}'),
        ("[]", "share is empty"),
        ("0.*", "share = '0.*' should be a valid tuple"),
        ("[1]", "share.0 = 1 should be a valid string"),
    ],
)
def test_patterns_that_share_nothing_are_refused(tacit, name, share, words):
    noise = NOISE if name == "partpsp" else setting("algorithm.noise_multiplier=2")
    chosen = [*QUICK, *NO_TARGET, *setting("model=mlp", f"algorithm={name}", f"algorithm.share={share}"), *noise]
    refused(tacit("train", *chosen), words)


def test_partpsp_needs_a_pattern_that_shares_some_parameters(tacit):
    ended = tacit("train", *PARTPSP, *NOISE, *setting('algorithm.share=["*"]'))
    refused(ended, "share = ['*'] matches every parameter", NAMES, "use sgpdp")
    missing = [*QUICK, *NO_TARGET, *setting("model=mlp", "algorithm=partpsp"), *NOISE]
    refused(tacit("train", *missing), "algorithm partpsp needs a value for: share")


@pytest.mark.parametrize("name", ["sgpdp", "pedfl"])
def test_share_is_refused_for_methods_that_share_all_parameters(tacit, name):
    chosen = setting("model=mlp", f"algorithm={name}", 'algorithm.share=["0.*"]')
    refused(tacit("train", *QUICK, *NO_TARGET, *chosen, *NOISE), " shares ", "remove algorithm.share")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("algorithm.sensitivity=estimate", "algorithm partpsp: sensitivity = 'estimate' should be"),
        ("algorithm.sync_every=-1", "PartPSP: sync_every must be 0 (never) or more, got -1"),
        ("algorithm.sync_every=often", "sync_every = 'often' should be a valid integer"),
        ("algorithm.clip=0", "PartPSP: clip must be positive and finite, got 0"),
        ("algorithm.b=-1", "PartPSP: b must be positive and finite, got -1"),
        ("algorithm.lam=1.5", "PartPSP: lam must be below 1, got 1.5"),
        ("algorithm.noise_rate=-1", "PartPSP: noise_rate must be 0 or more and finite, got -1"),
        ("algorithm.noise_rate=nan", "PartPSP: noise_rate must be 0 or more and finite, got nan"),
        (
            "algorithm.noise_rate=",
            "PartPSP: no noise level: set privacy.epsilon (Python: epsilon=) or algorithm.noise_rate",
        ),
        ("algorithm.decay_rounds=[1.5]", "decay_rounds.0 = 1.5 should be a valid integer"),
        ("algorithm.local=public", "local = 'public' should be 'private' or 'exact'"),
        ("algorithm.local=private", 'use local = "exact"'),
        ("algorithm.scale=2", 'unknown parameter of algorithm partpsp "scale"'),
        ("privacy.epsilon=3", "privacy.epsilon and algorithm.noise_rate both set the noise"),
    ],
)
def test_invalid_parameters_are_refused(tacit, change, words):
    refused(tacit("train", *PARTPSP, *NOISE, *setting(change)), words)


def test_share_is_refused_for_an_own_algorithm_without_partial_sharing(tacit, monkeypatch):
    Path("own.py").write_text("from tests.runs.own import Mine\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    ended = tacit("train", *QUICK, *NO_TARGET, *setting("algorithm=own.py:Mine", 'algorithm.share=["0.weight"]'))
    refused(ended, "Mine shares all parameters: remove algorithm.share", left=["own.py"])


@pytest.mark.parametrize("target", ["epsilon", "budget"])
def test_an_unproven_sensitivity_cannot_meet_a_target(tacit, target):
    noise = NOISE if target == "budget" else []
    chosen = setting("algorithm.sensitivity=real", f"privacy.{target}=3")
    refused(tacit("train", *PARTPSP, *noise, *chosen), "sensitivity", "proven")
