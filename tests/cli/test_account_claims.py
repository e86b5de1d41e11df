"""`tacit account` with every sampling kind and relation, and with `--claimed`."""

import json
from pathlib import Path

import pytest

from tacit.claims import ClaimVerdict, claim_line
from tacit.privacy import epsilon, sampling_kinds
from tacit.privacy.gdp import epsilon_to_mu, mu_to_epsilon
from tests.cli.conftest import QUICK, setting
from tests.cli.test_account_command import answer, options
from tests.privacy.streams import MECHANISMS, repeated, sampling

DYN_D2P = options(noise_multiplier=0.4395, sample_rate=0.0004, steps=3500, delta=1e-4)


def supported():
    return [(kind, relation) for kind in sampling_kinds for relation in sampling_kinds.registered(kind).relations]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("kind", "relation"), supported())
def test_every_sampling_and_relation_is_accounted_as_its_releases(tacit, mechanism, kind, relation):
    rate, steps = (1.0 if kind == "none" else 0.25), 10
    given = options(noise_multiplier=2, steps=steps, sampling=kind, relation=relation)
    given += options(sample_rate=rate) if rate < 1 else []
    privacy = answer(tacit("account", mechanism, "--json", *given))["privacy"]
    exact = epsilon(repeated(MECHANISMS[mechanism](2.0), steps, sampling(kind, rate, relation)), 1e-5)
    assert privacy["guaranteed"] == pytest.approx(exact, rel=1e-9)
    assert privacy["relation"] == relation


@pytest.mark.parametrize("kind", list(sampling_kinds))
def test_the_default_relation_is_the_first_of_the_kind(tacit, kind):
    given = options(noise_multiplier=2, sampling=kind)
    expected = sampling_kinds.registered(kind).relations[0]
    assert answer(tacit("account", "gaussian", "--json", *given))["privacy"]["relation"] == expected
    assert kind in tacit("account", "--help").out


def test_a_permutation_costs_one_release_per_epoch(tacit):
    for steps, rate, epochs in ((10, 0.1, 1), (11, 0.1, 2), (30, 0.333, 10), (30, 0.3334, 10), (5, 1, 5)):
        given = options(noise_multiplier=2, steps=steps, sampling="permutation", sample_rate=rate)
        privacy = answer(tacit("account", "gaussian", "--json", *given))["privacy"]
        assert privacy["guaranteed"] == pytest.approx(mu_to_epsilon(epochs**0.5 / 2, 1e-5), rel=1e-6)


def test_there_and_back_for_a_permutation(tacit):
    common = options(sampling="permutation", sample_rate=0.25, steps=20)
    solved = answer(tacit("account", "gaussian", "--json", "--epsilon", "2", *common))
    assert 1.98 < solved["privacy"]["guaranteed"] <= 2
    assert solved["noise_multiplier"] == pytest.approx(5**0.5 / epsilon_to_mu(2, 1e-5), rel=0.01)


@pytest.mark.parametrize(("claimed", "holds"), [(1, False), (3.01, False), (3.02, None), (3.03, True), (4, True)])
def test_the_claim_of_dyn_d2p(tacit, claimed, holds):
    found = answer(tacit("account", "gaussian", "--json", "--claimed", str(claimed), *DYN_D2P))
    assert (found["claimed"], found["claim_holds"]) == (claimed, holds)
    assert 3.01 < found["epsilon_at_least"] < found["privacy"]["guaranteed"] < 3.03


def test_the_verdict_is_one_sentence(tacit):
    lines = tacit("account", "gaussian", *DYN_D2P, "--claimed", "1").out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("The claim ε = 1 does not hold: the guaranteed ε is 3.02")
    assert ", and the exact ε is at least 3.01" in lines[1]
    lines = tacit("account", "gaussian", *DYN_D2P, "--claimed", "4").out.splitlines()
    assert lines[1].startswith("The claim ε = 4 holds: the guaranteed ε is 3.02")


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_claims_about_gaussian_noise_without_sampling_are_decided(tacit, relation):
    exact = mu_to_epsilon(2.5, 1e-5)
    for claimed, holds in ((exact * (1 - 1e-6), False), (exact * (1 + 1e-6), True)):
        given = options(noise_multiplier=4, steps=100, relation=relation, claimed=claimed)
        assert answer(tacit("account", "gaussian", "--json", *given))["claim_holds"] is holds


def test_claims_at_delta_0(tacit):
    laplace = options(noise_multiplier=2, steps=3, delta=0)
    assert answer(tacit("account", "laplace", "--json", "--claimed", "1.6", *laplace))["claim_holds"] is True
    assert answer(tacit("account", "laplace", "--json", "--claimed", "1.4", *laplace))["claim_holds"] is False
    gaussian = tacit("account", "gaussian", "--claimed", "50", *laplace)
    assert gaussian.out.splitlines() == [
        "No privacy is guaranteed: no ε holds for gaussian noise at δ = 0",
        "The claim ε = 50 does not hold: no ε is guaranteed, and no ε holds at δ = 0.",
    ]


def test_a_permutation_may_be_better_than_its_guarantee(tacit):
    given = options(noise_multiplier=1, sampling="permutation", sample_rate=0.01, steps=100)
    assert answer(tacit("account", "gaussian", "--json", "--claimed", "2", *given))["claim_holds"] is None
    assert answer(tacit("account", "gaussian", "--json", "--claimed", "5", *given))["claim_holds"] is True
    assert answer(tacit("account", "gaussian", "--json", "--claimed", "0.01", *given))["claim_holds"] is False


def test_claims_about_a_config(tacit):
    for claimed, holds in ((0.5, False), (3, True)):
        found = answer(tacit("account", "--json", "--claimed", str(claimed), *QUICK, *options(epsilon=2)))
        assert found["claim_holds"] is holds
    unprotected = setting("algorithm=sgp", "privacy.epsilon=")
    assert "The claim ε = 9 does not hold" in tacit("account", "--claimed", "9", *QUICK, *unprotected).out


@pytest.mark.parametrize("kind", list(sampling_kinds))
def test_the_sampling_of_a_config(tacit, kind):
    Path("mine.toml").write_text('[algorithm]\nname = "const-d2p"\nnoise_multiplier = 3.0\n')
    found = answer(tacit("account", "mine.toml", "--json", *QUICK, *options(sampling=kind, delta=1e-5)))
    assert found["privacy"]["relation"] == sampling_kinds.registered(kind).relations[0]
    if kind == "none":
        rounds = int(next(part for part in QUICK if part.startswith("rounds=")).removeprefix("rounds="))
        assert found["privacy"]["guaranteed"] == pytest.approx(mu_to_epsilon(rounds**0.5 / 3, 1e-5), rel=1e-6)


def test_rounding_never_puts_a_bound_on_the_wrong_side_of_the_claim():
    assert claim_line(ClaimVerdict(13.207, 13.20672, 13.2067, 1e-5)).endswith("ε is 13.207.")
    assert claim_line(ClaimVerdict(13.2066, 13.20672, 13.2067, 1e-5)).endswith("at least 13.2067.")
    assert claim_line(ClaimVerdict(1.0000001, 1.00000005, 0.99, 1e-5)).endswith("ε is 1.00000005.")
    assert claim_line(ClaimVerdict(1.0, None, 0.0, 1e-5)) == "The claim ε = 1 is undecided: no ε is guaranteed."


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--sampling", "poison"], 'unknown sampling kind "poison"; did you mean "poisson"?'),
        (["--sampling", "none", "--sample-rate", "0.1"], "sampling none uses all records, got sample_rate 0.1"),
        (["--sampling", "permutation", "--sample-rate", "0.7"], "must be 1 / (number of batches) for permutation"),
        (["--sampling", "without-replacement", "--relation", "add-remove"], 'for relation "replace-one" only'),
        (["--sampling", "permutation", "--relation", "add-remove"], 'for relation "replace-one" only'),
        (["--claimed", "-1"], "claimed must be a finite number of at least 0, got -1.0"),
        (["--claimed", "nan"], "claimed must be a finite number of at least 0, got nan"),
        (["--claimed", "inf"], "claimed must be a finite number of at least 0, got inf"),
    ],
)
def test_bad_sampling_or_claim(tacit, args, words):
    ended = tacit("account", "gaussian", "--noise-multiplier", "1", *args)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_json_of_a_claim_has_only_standard_numbers(tacit):
    ended = tacit("account", "gaussian", "--json", "--noise-multiplier", "1", "--delta", "0", "--claimed", "1")
    found = json.loads(ended.out, parse_constant=lambda name: pytest.fail(name))
    assert (found["claim_holds"], found["epsilon_at_least"]) == (False, None)
