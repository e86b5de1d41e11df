"""Sites with data in different file formats, one of them without a class that the others have."""

import numpy as np
import pytest

from tacit.sites.build import build_site
from tacit.sites.site_config import SiteConfig

from .site_networks import create_node, run_nodes
from .six_sites import DYN_D2P, TARGET, create_six_sites
from .small_network import change_toml

pytestmark = pytest.mark.usefixtures("one_torch_thread")

LOAD_FUNCTION = """
import numpy as np
from tacit import Dataset

def load():
    held = np.load({path!r})
    x, y = held["x"].reshape(len(held["x"]), -1), held["y"]
    return Dataset.from_arrays(x, y, labels=list(range(10)))
"""


def write_csv(site, x, y):
    """Write the records as CSV; return the [data] section for it."""
    table = [",".join([*(f"p{i}" for i in range(x.shape[1])), "digit"])]
    table += [",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True)]
    (site / "records.csv").write_text("\n".join(table))
    return {"name": "csv", "path": "records.csv", "label": "digit"}


@pytest.fixture
def files(tmp_path):
    _, files = create_six_sites(tmp_path, **DYN_D2P)
    change_toml(files[0].parents[1] / "network.toml", data={"inputs": [64], "labels": list(range(10))})
    for number, path in enumerate(files):
        site, held = path.parent, np.load(path.parent / "records.npz")
        x, y = held["x"].reshape(len(held["x"]), -1), held["y"]
        if number == 0:
            change_toml(path, data=write_csv(site, x[y != 3], y[y != 3]))
        elif number == 1:
            (site / "mine.py").write_text(LOAD_FUNCTION.format(path=str(site / "records.npz")))
            change_toml(path, data={"name": "mine.py:load"})
        else:
            np.savez(site / "records.npz", x=x, y=y)
    return files


def test_sites_with_csv_python_and_npz_data_train_together(files):
    results = run_nodes([create_node(file) for file in files])
    assert [result["rounds"] for result in results] == [6] * 6
    assert all(0 < result["privacy"]["guaranteed"] <= TARGET["epsilon"] for result in results)


def test_missing_class_does_not_change_class_numbers(files):
    y = build_site(SiteConfig.load(files[0])).task.data.y
    assert sorted(set(y.tolist())) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
