"""One data set per node: those are the shards."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import tacit
from tests.api.cases import quick, records

X, Y = records()
CUTS = [0, 30, 70, 120]
HOSPITALS = [(X[a:b], Y[a:b]) for a, b in pairwise(CUTS)]


def test_the_entries_are_the_shards_in_their_order():
    run = quick(data=HOSPITALS, labels=[0, 1], test=(X, Y))
    assert run.network.graph.nodes == 3
    assert run.task.sizes.tolist() == [30, 40, 50]
    shards = [np.arange(a, b) for a, b in pairwise(CUTS)]
    whole = tacit.Dataset.from_arrays(X, Y, test=(X, Y), labels=[0, 1])
    assert torch.equal(run.models, quick(data=whole, sharding=shards, nodes=3).models)


def test_held_out_records_are_those_of_the_whole():
    run, whole = quick(data=HOSPITALS, labels=[0, 1]), tacit.Dataset.from_arrays(X, Y, labels=[0, 1])
    assert torch.equal(run.task.data.x, whole.x)
    assert torch.equal(run.task.data.test_y, whole.test_y)
    assert run.task.data.split == "content"
    assert run.task.sizes.sum() == len(whole.y)
    assert (run.task.sizes < [30, 40, 50]).all()


def test_held_out_records_fit_the_relation_of_the_run():
    run = quick(data=HOSPITALS, labels=[0, 1], relation="replace-one", sampling="without-replacement")
    assert run.task.data.split == "index"
    assert run.privacy.guaranteed > 0


def test_adding_a_record_moves_no_other_record():
    more = [HOSPITALS[0], (np.vstack([HOSPITALS[1][0], [[9.0, 9, 9]]]), np.append(HOSPITALS[1][1], 1)), HOSPITALS[2]]
    before, after = (quick(data=data, labels=[0, 1]).task for data in (HOSPITALS, more))
    assert (abs(after.sizes - before.sizes) <= [0, 1, 0]).all()
    for node in (0, 2):
        one, other = (task.data.x[task.shards[node]] for task in (before, after))
        assert torch.equal(one, other)


def test_frames_torch_data_sets_and_data_sets_per_node():
    pairs = quick(data=HOSPITALS, labels=[0, 1])
    tables = [pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y) for x, y in HOSPITALS]
    tables[1] = tables[1][["y", "c", "a", "b"]]
    tensors = [TensorDataset(torch.tensor(x), torch.tensor(y)) for x, y in HOSPITALS]
    own = [tacit.Dataset.from_arrays(x, y, labels=[0, 1]) for x, y in HOSPITALS]
    for run in (
        quick(data=tables, target="y", labels=[0, 1]),
        quick(data=tensors, labels=[0, 1]),
        quick(data=own),
    ):
        assert torch.equal(run.models, pairs.models)
        assert torch.equal(run.task.data.test_x, pairs.task.data.test_x)


def test_secret_noise_accepts_data_per_node():
    run = quick(data=HOSPITALS, labels=[0, 1], noise="secret")
    assert not run.privacy.simulated
    assert run.privacy.runs == 1


def test_graph_object_of_the_right_size():
    assert quick(data=HOSPITALS, labels=[0, 1], graph=nx.cycle_graph(3)).t == 3
    with pytest.raises(tacit.TacitError, match="data has 3 entries, one per node, but the graph has 5 nodes"):
        quick(data=HOSPITALS, labels=[0, 1], graph=nx.cycle_graph(5))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nodes": 4}, "data has 3 entries, one per node, but nodes=4: leave nodes out"),
        ({"sharding": "iid"}, "data has one entry per node, which are the shards: remove sharding="),
        ({"data": [X, Y]}, r"entry 0 must be \(x, y\).*got ndarray: .* pass the tuple \(x, y\)"),
        ({"data": []}, "data is an empty list"),
        (
            {"data": [(X, Y), (X[:, :2], Y)]},
            r"data of node 1: records have shape \(2,\), but those of node 0 have \(3,\)",
        ),
        ({"data": [(X, Y), (X, Y[:5])]}, "data of node 1: x has 120 records but y has 5 labels"),
        ({"data": [(X, Y), (X, Y.astype(str))]}, "some nodes have text as labels and others numbers"),
        ({"data": [(X, Y), tacit.Dataset.from_arrays(X, Y, labels=[0, 1])]}, "use one form"),
        ({"data": [pd.DataFrame(X), pd.DataFrame(X[:, :2])], "target": "0"}, "must have the same columns"),
    ],
)
def test_wrong_data_per_node(given, words):
    with pytest.raises(tacit.TacitError, match=words):
        quick(**{"data": HOSPITALS, "labels": [0, 1], **given})


def test_data_sets_with_other_classes_are_refused_without_naming_them():
    own = [tacit.Dataset.from_arrays(X, Y + first) for first in (0, 1700)]
    with pytest.raises(tacit.TacitError, match="of node 1: classes, columns or normalisation differ") as refusal:
        quick(data=own)
    assert "170" not in str(refusal.value)


def test_learnt_classes_of_all_nodes_together():
    run = quick(data=[(X[:40], np.zeros(40, int)), (X[40:80], np.ones(40, int))], algorithm="sgp")
    assert run.task.data.target.labels == (0, 1)
    assert not run.task.data.declared
