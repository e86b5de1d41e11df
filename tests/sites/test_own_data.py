"""Sites that bring their data each in another form, and one of them without a class that the others have."""

import tomllib

import numpy as np
import pytest
import tomli_w

from tacit.sites.build import build_site
from tacit.sites.site_config import SiteConfig
from tests.sites.test_sites import DIRECTED, TARGET, network, quick, started, worked  # noqa: F401  (a fixture)

OWN = """
import numpy as np
from tacit import Dataset

def load():
    held = np.load({path!r})
    x, y = held["x"].reshape(len(held["x"]), -1), held["y"]
    return Dataset.from_arrays(x, y, labels=list(range(10)))
"""


def rewritten(path, **changes):
    path.write_text(tomli_w.dumps({**tomllib.loads(path.read_text()), **changes}))


def as_csv(site, x, y):
    table = [",".join([*(f"p{i}" for i in range(x.shape[1])), "digit"])]
    table += [",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True)]
    (site / "records.csv").write_text("\n".join(table))
    return {"name": "csv", "path": "records.csv", "label": "digit"}


@pytest.fixture
def made(tmp_path):
    _, made = network(tmp_path, algorithm={"name": "dyn-d2p", "lr": 0.5}, privacy=TARGET, graph=DIRECTED)
    agreed = tomllib.loads(made.network.read_text())
    rewritten(made.network, data={"inputs": [64], "labels": list(range(10))}, evaluate_every=agreed["evaluate_every"])
    for number, path in enumerate(made.nodes):
        site, held = path.parent, np.load(path.parent / "records.npz")
        x, y = held["x"].reshape(len(held["x"]), -1), held["y"]
        if number == 0:
            rewritten(path, data=as_csv(site, x[y != 3], y[y != 3]))
        elif number == 1:
            (site / "mine.py").write_text(OWN.format(path=str(site / "records.npz")))
            rewritten(path, data={"name": "mine.py:load"})
        else:
            np.savez(site / "records.npz", x=x, y=y)
    return made


def test_each_in_its_own_form(made):
    results = worked(started(made))
    assert [result["rounds"] for result in results] == [6] * 6
    assert all(0 < result["privacy"]["guaranteed"] <= TARGET["epsilon"] for result in results)


def test_a_class_that_a_site_lacks_keeps_its_number(made):
    y = build_site(SiteConfig.load(made.nodes[0])).task.data.y
    assert sorted(set(y.tolist())) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
