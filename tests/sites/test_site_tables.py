"""Sites whose data are tables: the columns are declared once, for all sites, in network.toml."""

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.errors import TacitError
from tacit.sites.build import build_site
from tacit.sites.site_config import SiteConfig

from .site_networks import create_node, run_nodes
from .six_sites import DYN_D2P, TARGET, create_six_sites
from .small_network import change_toml

pytestmark = pytest.mark.usefixtures("one_torch_thread")

COLUMNS = {
    "age": {"range": [0, 110]},
    "sex": {"categories": ["F", "M"]},
    "patient_id": "drop",
}
TARGETS = {"outcome": {"label": ["no", "yes"]}, "stay": {"target": [0, 60]}}


def patients(seed, count=80):
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(0, 110, count), rng.choice(["F", "M", "?"], count, p=[0.5, 0.45, 0.05])
    frame = pd.DataFrame({"patient_id": [f"P{k}" for k in range(count)], "age": age.astype(str), "sex": sex})
    frame["outcome"] = np.where(age + rng.normal(0, 20, count) > 55, "yes", "no")
    frame["stay"] = (age / 4 + rng.normal(0, 2, count)).round(1).astype(str)
    frame.loc[::11, "age"] = "unknown"
    return frame


def tables(tmp_path, target, **data):
    """Six sites with tables: other separators, orders of columns and encodings at each."""
    _, files = create_six_sites(tmp_path, **DYN_D2P)
    columns = COLUMNS | {name: TARGETS[name] if name == target else "drop" for name in TARGETS}
    change_toml(files[0].parents[1] / "network.toml", data={"columns": columns, "missing": "indicator", **data})
    for number, path in enumerate(files):
        frame = patients(number)
        frame = frame[list(np.random.default_rng(number).permutation(frame.columns))]
        form = {"sep": ",;\t"[number % 3], "encoding": ["utf-8", "utf-16"][number % 2]}
        frame.to_csv(path.parent / "patients.csv", index=False, **form)
        change_toml(path, data={"name": "csv", "path": "patients.csv"})
    return files


@pytest.mark.parametrize("target", list(TARGETS))
def test_sites_with_tables_train_together_and_have_a_model_that_predicts(tmp_path, target):
    files = tables(tmp_path, target)
    results = run_nodes([create_node(file) for file in files])
    assert [result["rounds"] for result in results] == [6] * 6
    assert all(0 < result["privacy"]["guaranteed"] <= TARGET["epsilon"] for result in results)
    metric = "roc_auc" if target == "outcome" else "rmse"
    assert all(metric in result["metrics"] for result in results)
    new = patients(99)
    prepared = [tacit.load(file.parent / "state").prepare(new) for file in files]
    assert all(np.array_equal(prepared[0], other) for other in prepared)
    assert prepared[0].shape == (80, 5)
    predicted = tacit.load(files[0].parent / "state").predict(new)
    assert predicted.shape == (80,)
    assert set(predicted) <= {"no", "yes"} if target == "outcome" else predicted.min() >= 0


def test_records_are_prepared_in_the_same_way_at_every_site(tmp_path):
    sites = [build_site(SiteConfig.load(file)) for file in tables(tmp_path, "outcome")]
    assert len({site.description.digest for site in sites}) == 1
    assert sites[0].description.columns["columns"]["age"] == {"range": [0, 110]}
    assert {site.task.data.inputs for site in sites} == {(5,)}


@pytest.mark.parametrize(
    ("network", "node", "message"),
    [
        ({"inputs": [5]}, {}, "data.inputs follows from data.columns: remove it"),
        ({"missing": "refuse"}, {}, 'missing = "refuse" is not accepted'),
        ({"columns": {"age": {"rnge": [0, 1]}}}, {}, 'unknown declaration "rnge"; did you mean "range"?'),
        ({}, {"missing": "middle"}, "data.missing differs from .*: remove it from node.toml"),
        ({}, {"columns": {"age": {"range": [0, 99]}}}, "data.columns differs from .*: remove it from node.toml"),
        ({}, {"name": "digits"}, "no declared columns, but .* requires the columns of data.columns"),
    ],
)
def test_other_columns_are_refused(tmp_path, network, node, message):
    files = tables(tmp_path, "outcome", **network)
    data = {"name": "csv", "path": "patients.csv"} | node
    change_toml(files[0], data={"name": "digits"} if node.get("name") else data)
    with pytest.raises(TacitError, match=message):
        build_site(SiteConfig.load(files[0]))
