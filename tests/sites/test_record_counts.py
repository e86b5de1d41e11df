"""Public numbers of records in network.toml: written where they are used, and compared with the data."""

import tomllib

import pytest
import torch

from tacit.errors import TacitError
from tacit.networks import run_on_threads
from tacit.runs import Config, Run, from_config
from tacit.sites.build import build_site
from tacit.sites.network_config import NetworkConfig
from tacit.sites.site_config import SiteConfig

from .small_network import BASE, UNEVEN_SIZES, change_toml, create_small_network

WEIGHTED = {**BASE, "algorithm": {**BASE["algorithm"], "weights": "records"}}


@pytest.fixture
def files(tmp_path):
    return create_small_network(tmp_path / "net", WEIGHTED, noise_seed=5)


def change_sites(files, *changes):
    """Change entries of [[sites]]; a key that is None is removed."""
    table = tomllib.loads(files.network.read_text())
    sites = [{**site, **change} for site, change in zip(table["sites"], changes, strict=True)]
    change_toml(files.network, sites=[{k: v for k, v in site.items() if v is not None} for site in sites])


def test_numbers_are_written_where_they_are_used(files, tmp_path):
    assert NetworkConfig.load(files.network).records == tuple(UNEVEN_SIZES["sizes"])
    plain = create_small_network(tmp_path / "plain", BASE)
    assert NetworkConfig.load(plain.network).records is None
    assert build_site(SiteConfig.load(plain.nodes[0])).description.records is None


def test_weighted_sites_give_the_models_of_the_simulation(files):
    parts = [build_site(SiteConfig.load(node)) for node in files.nodes]
    assert len({part.description.digest for part in parts}) == 1
    weights = [float(part.task.weights[0]) for part in parts]
    assert weights == pytest.approx([3 * size / sum(UNEVEN_SIZES["sizes"]) for size in UNEVEN_SIZES["sizes"]])
    assert parts[1].task.of_network().sizes.tolist() == UNEVEN_SIZES["sizes"]

    def host(network):
        part = parts[int(network.nodes[0])]
        return Run(part.task, part.algorithm, network, delta=part.delta).go()

    separate = run_on_threads(parts[0].graph, host)
    simulated = from_config(Config.load(files.simulation)).go()
    unweighted = from_config(Config.parse(BASE | {"graph": {"name": "complete", "nodes": 3}})).go()
    assert torch.cat([run.models for run in separate]).sub(simulated.models).abs().max() <= 1e-6
    assert simulated.models.sub(unweighted.models).abs().max() > 1e-2
    assert simulated.privacy.guaranteed == pytest.approx(unweighted.privacy.guaranteed, rel=1e-9)


def test_a_site_with_another_number_of_records_is_refused_before_it_starts(files):
    change_sites(files, {}, {"records": 199}, {})
    assert build_site(SiteConfig.load(files.nodes[0]))
    with pytest.raises(TacitError, match=r"site-2 has 200 training records, but .* states 199: correct records"):
        build_site(SiteConfig.load(files.nodes[1]))
    assert not (files.nodes[1].parent / "state").exists()


def test_sites_agree_on_the_numbers(files):
    before = build_site(SiteConfig.load(files.nodes[0])).description.digest
    change_sites(files, {}, {}, {"records": 91})
    assert build_site_description(files) != before


def build_site_description(files):
    (files.nodes[0].parent / "state").rename(files.nodes[0].parent / "old")
    return build_site(SiteConfig.load(files.nodes[0])).description.digest


def test_weights_without_numbers_are_refused(files):
    change_sites(files, *[{"records": None}] * 3)
    with pytest.raises(TacitError, match=r'weights = "records" needs records = N of every entry of \[\[sites\]\]'):
        build_site(SiteConfig.load(files.nodes[0]))


def test_numbers_of_some_sites_are_refused(files):
    change_sites(files, {}, {"records": None}, {})
    with pytest.raises(TacitError, match="some sites have records and some do not"):
        NetworkConfig.load(files.network)
    change_sites(files, {}, {"records": 0}, {})
    with pytest.raises(TacitError, match="records = 0 should be greater than or equal to 1"):
        NetworkConfig.load(files.network)


def test_signals_have_no_numbers_of_records(tmp_path):
    from .test_build import GRAPH

    files = create_small_network(tmp_path / "net", GRAPH)
    change_sites(files, *[{"records": 500}] * 3)
    with pytest.raises(TacitError, match=r"ppgl learns a graph, so sites\.records has no effect: remove it"):
        NetworkConfig.load(files.network)
