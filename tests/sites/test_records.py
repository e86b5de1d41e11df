"""Runs of a site on the same records are added up, also after restarts and with new state folders."""

import json
import shutil

import pytest

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy import RecordsLedger, epsilon, joint_epsilon, plan
from tacit.runs import Observer
from tacit.sites.build import build_site
from tacit.sites.site_config import SiteConfig

from .site_networks import create_node, create_site_files, run_nodes
from .small_network import BASE, change_toml, create_small_network
from .test_build import GRAPH

pytestmark = pytest.mark.usefixtures("one_torch_thread")
DELTA = BASE["privacy"]["delta"]
TWO = {**BASE, "sharding": {"name": "sizes", "sizes": [150, 200]}}


def planned(part):
    return plan(part.algorithm.privacy, part.algorithm.rounds, part.task.sampling, part.task.nodes)


def two_sites(folder, config=TWO, **options):
    return create_site_files(folder, config, 2, noise_seed=None, peer_timeout=60.0, **options)


def run_all(files):
    return run_nodes([create_node(file) for file in files])


def privacy_of(results):
    return [result["privacy"] for result in results]


def with_new_state(files):
    """The same network again, from the beginning: new state folders, and so new noise."""
    for file in files:
        shutil.rmtree(file.parent / "state")
    return files


def test_two_runs_of_a_network_have_one_total_per_site(tmp_path):
    files = two_sites(tmp_path / "net")
    first = privacy_of(run_all(files))
    assert [(each["runs"], each["total"]) for each in first] == [(1, each["guaranteed"]) for each in first]
    second = privacy_of(run_all(with_new_state(files)))
    for file, each in zip(files, second, strict=True):
        lines = planned(build_site(SiteConfig.load(file)))
        assert each["guaranteed"] == epsilon(lines, DELTA)
        assert (each["runs"], each["total"]) == (2, joint_epsilon([lines, lines], DELTA))
        assert each["guaranteed"] < each["total"] < 2 * each["guaranteed"]
        written = json.loads((file.parent / "state/result.json").read_text())
        assert written["privacy"]["total"] == each["total"]
        assert 'noise = "secret"' in (file.parent / "state/config.toml").read_text()


def test_a_site_that_restarts_counts_once(tmp_path):
    files = two_sites(tmp_path / "net", checkpoint_every=1)

    class Stop(Observer):
        def on_round(self, run):
            if run.t == 2:
                raise KeyboardInterrupt

    stopped = run_nodes([create_node(file, observers=[Stop()]) for file in files])
    assert [result["rounds"] for result in stopped] == [2, 2]
    assert all(each["total"] == each["guaranteed"] for each in privacy_of(stopped))
    again = privacy_of(run_all(files))
    assert [(each["runs"], each["total"]) for each in again] == [(1, each["guaranteed"]) for each in again]
    assert all(new["total"] > old["total"] for new, old in zip(again, privacy_of(stopped), strict=True))
    assert [each["runs"] for each in privacy_of(run_all(files))] == [1, 1], "a finished site that starts again"


def test_a_site_that_was_killed_counts_in_full(tmp_path):
    node = create_small_network(tmp_path / "net", BASE).nodes[0]
    change_toml(node, population="ward-7")
    part = build_site(SiteConfig.load(node))
    part.ledger.record(planned(part)[0])
    (recorded,) = RecordsLedger().find("ward-7")[1]
    assert (recorded.ended, len(recorded.releases)) == (False, BASE["rounds"])


def test_a_budget_refuses_a_site_before_it_sends_anything(tmp_path):
    files = create_small_network(tmp_path / "net", BASE).nodes
    for file in files:
        change_toml(file, population=f"ward of {file.parent.name}", population_budget=2.5)
    part = build_site(SiteConfig.load(files[0]))
    for line in planned(part):
        part.ledger.record(line)
    part.ledger.reservation.end(part.ledger.releases(), None)
    build_site(SiteConfig.load(files[0]))  # the same run
    shutil.rmtree(files[0].parent / "state")
    with pytest.raises(BudgetExceeded, match=r"ε = 2\.5 at δ = 0\.001: 1 run spent 1\.9.*, this run plans 1\.9"):
        build_site(SiteConfig.load(files[0]))
    build_site(SiteConfig.load(files[1]))  # other records


def test_simulated_sites_are_not_added_up(tmp_path):
    files = create_site_files(tmp_path / "net", TWO, 2, noise_seed=3)
    assert [each["runs"] for each in privacy_of(run_all(files))] == [0, 0]
    assert not RecordsLedger().path.exists()


def test_graph_learning_sites_are_added_up_and_count_once(tmp_path):
    rounds = {**GRAPH["algorithm"], "release": "rounds", "K": 1}
    files = two_sites(tmp_path / "net", {**GRAPH, "algorithm": rounds})
    first = privacy_of(run_all(files))
    assert [(each["runs"], each["total"]) for each in first] == [(1, each["guaranteed"]) for each in first]
    assert [each["runs"] for each in privacy_of(run_all(files))] == [1, 1]
    second = privacy_of(run_all(with_new_state(files)))
    assert all(each["runs"] == 2 and 2.0 < each["total"] < 4.0 for each in second)


def test_a_population_belongs_in_the_file_of_a_site(tmp_path):
    files = create_small_network(tmp_path / "net", BASE)
    change_toml(files.network, privacy={**BASE["privacy"], "population": "ward-7"})
    with pytest.raises(TacitError, match=r"remove privacy\.population .*: each site sets its own in node\.toml"):
        SiteConfig.load(files.nodes[0])
