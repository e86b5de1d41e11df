"""A user's own algorithm in a file of its own."""

from pathlib import Path

import pytest

import tacit
from tacit.errors import TacitError
from tests.runs import own
from tests.runs.cases import assert_same, interrupt_after, small

FILE = Path(own.__file__)


def named(name, **params):
    return {"name": f"{FILE}:{name}", **params}


def test_user_algorithm_runs_from_a_file_and_as_an_object(tmp_path):
    run = small(algorithm=named("Mine", lr=0.5)).go()
    assert run.algorithm.title == "Mine"
    assert run.evaluations[-1]["accuracy"] > run.evaluations[0]["accuracy"] + 0.1
    assert 0 < run.privacy.guaranteed < 10
    same = tacit.train(algorithm=own.Mine(lr=0.5), nodes=5, rounds=12, batch=16, delta=1e-4, evaluate_every=5)
    assert same.privacy == run.privacy
    assert same.models.equal(run.models)


def test_user_algorithm_can_be_resumed(tmp_path):
    small(algorithm=named("Mine"), out=tmp_path / "run", observers=[interrupt_after(7)]).go()
    resumed = small(algorithm=named("Mine"), out=tmp_path / "run", resume=True).go()
    assert_same(resumed, small(algorithm=named("Mine")).go())


def test_budget_needs_a_plan():
    limit = {"privacy": {"delta": 1e-4, "budget": 5.0}}
    with pytest.raises(TacitError, match="Mine does not plan its releases"):
        small(algorithm=named("Mine"), **limit)
    run = small(algorithm=named("Planning"), **limit).go()
    assert (run.t, run.stopped) == (12, None)
    assert run.planned().per_node.tolist() == run.privacy.per_node.tolist()
    assert run.planned().guaranteed == run.privacy.guaranteed


def test_unplanned_releases_give_no_planned_epsilon():
    planned = small(algorithm=named("Mine")).planned()
    assert planned.guaranteed is None
    assert planned.reason == "Mine does not plan its releases"


@pytest.mark.parametrize("stop", [0, 7])
def test_value_used_without_release_voids_the_guarantee(stop, tmp_path):
    run = small(algorithm=named("Leaky"), out=tmp_path / "run", observers=[interrupt_after(stop)]).go()
    resumed = small(algorithm=named("Leaky"), out=tmp_path / "run", resume=True)
    for found in (run, resumed, resumed.go()):
        assert found.privacy.guaranteed is None
        assert found.privacy.reason.startswith('"gradient" of step 0 was computed from the records')
        assert [row["guaranteed"] for row in found.evaluations[1:]] == [None] * (len(found.evaluations) - 1)


def test_state_that_cannot_be_saved_is_refused_at_the_start(tmp_path):
    assert small(algorithm=named("Bare")).go().t == 12
    with pytest.raises(TacitError, match="the state of Mine must be a dataclass of tensors"):
        small(algorithm=named("Bare"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Min", "defines no class or function Min"),
        ("not_callable", "defines no class or function not_callable"),
        ("not_an_algorithm", "is not an Algorithm"),
    ],
)
def test_other_objects_are_refused_as_algorithm(name, words):
    with pytest.raises(TacitError, match=words):
        small(algorithm=named(name))


def test_parameters_of_a_user_algorithm_are_checked():
    with pytest.raises(TacitError, match='"nois"; did you mean "noise"'):
        small(algorithm=named("Mine", nois=1.0))
    with pytest.raises(TacitError, match="lr = 'fast' should be a valid number"):
        small(algorithm=named("Mine", lr="fast"))
    with pytest.raises(TacitError, match=r'unknown parameter of algorithm .* "rounds"'):
        small(algorithm=named("Mine", rounds=3))


@pytest.mark.parametrize(("text", "words"), [("import nothing_such", "nothing_such"), ("x = (", "SyntaxError")])
def test_error_in_a_user_file_names_the_file(text, words, tmp_path):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(TacitError, match=rf"bad.py fails with .*{words}"):
        small(algorithm={"name": f"{tmp_path}/bad.py:Mine"})
