"""What PyTorch users pass by mistake is refused in one sentence."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import tacit
from tests.api.cases import quick, records

X, Y = records()
PAIRS = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(Y))
MISSING = pd.DataFrame(X).astype("Float64")
MISSING.iloc[3, 1] = pd.NA
SGD = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
OPTIMISER = r"optimiser \(SGD\), but .*: remove the optimiser, and set algorithm= and lr="


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


class Items(TorchDataset):
    def __init__(self, *items):
        self.items = items

    def __getitem__(self, i):
        return self.items[i]


class CountedItems(Items):
    def __len__(self):
        return len(self.items)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": nn.Linear}, r"model is the class Linear: pass an instance, Linear\(...\)"),
        ({"model": nn.CrossEntropyLoss()}, r"model is a loss \(CrossEntropyLoss\): pass the module"),
        ({"model": SGD}, f"model is an {OPTIMISER}"),
        ({"model": lambda x: x}, "model must be a name, a torch.nn.Module or a tacit.Model, got function"),
        ({"model": nn.Linear(3, 1), "labels": [0, 1, 2]}, "needs a model with 3 outputs per record"),
        ({"task": "regression"}, r'needs targets of kind number, .*tacit.Target\("number", range=\(low, high\)\)'),
        ({"model": nn.Linear(5, 2)}, r"the model does not accept records of shape \(3,\)"),
        ({"algorithm": SGD}, f"algorithm is an {OPTIMISER}"),
        ({"algorithm": torch.optim.SGD}, f"algorithm is an {OPTIMISER}"),
        ({"algorithm": tacit.algorithms.DPSGD}, r"algorithm is the class DPSGD: pass an instance, DPSGD\(...\)"),
        ({"lr": SGD}, f"lr is an {OPTIMISER}"),
        ({"optimizer": SGD}, f"optimizer is an {OPTIMISER}"),
        ({"task": nn.MSELoss()}, "task must be a name or a tacit.Head, got MSELoss; task= takes no loss function"),
        ({"graph": np.eye(4)}, "graph must be a name, a tacit.Graph or a networkx graph, got ndarray"),
        ({"nodes": 0}, "got 0"),
        ({"graph": nx.cycle_graph(4), "nodes": 3}, "the graph has 4 nodes, but nodes=3: leave nodes out"),
        ({"data": (torch.tensor(X).to_sparse(), Y)}, r"x is a sparse tensor: pass x.to_dense\(\)"),
        ({"data": (csr_matrix(X), Y)}, r"x is a sparse matrix: pass x.toarray\(\)"),
        ({"data": (MISSING, Y)}, 'column "1" of data has a missing value, first at row 3 .*Dataset.from_frame'),
        ({"sharding": 3}, "sharding must be a name or one array of record indices per node, got int"),
        ({"data": DataLoader(PAIRS)}, "data is a DataLoader: pass loader.dataset; .*batch="),
        ({"data": [DataLoader(PAIRS)]}, "data of node 0 is a DataLoader: pass loader.dataset"),
        ({"data": Stream()}, "data is an iterable data set .*pass a map-style one"),
        ({"data": Items((X[0], 1))}, r"data \(Items\) has no length: define __len__"),
        ({"data": CountedItems((X[0], 1, 2))}, r"must be pairs \(x, y\), got a tuple of 3"),
        ({"data": CountedItems((X[0], 1), (X[0, :2], 0))}, "must all have the same shape"),
        ({"data": (X, Y[:-1])}, "x has 120 records but y has 119 labels"),
        ({"data": (X[:, 0], Y)}, r"x must have shape \(records, features, …\)"),
        ({"data": (X, Y, X)}, r"data must be \(x, y\), .*got a tuple of 3"),
        ({"data": X}, r"data must be \(x, y\), .*got ndarray"),
        ({"data": (X, Y), "test": (X[:, :2], Y)}, "they must be the same"),
    ],
)
def test_mistakes(given, words):
    with pytest.raises(tacit.TacitError, match=words) as refusal:
        quick(**{"model": nn.Linear(3, 2), "data": (X, Y), "labels": [0, 1], **given})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("given", [{}, {"task": "binary"}, {"model": tacit.Model(nn.Linear(3, 1))}])
@pytest.mark.parametrize("algorithm", ["sgp", "const-d2p"])
def test_classes_that_were_learnt_are_not_counted_in_an_error(given, algorithm):
    numbers = np.linspace(0, 1, 35).repeat(2)
    x = np.random.default_rng(0).normal(size=(70, 3))
    noise = {"noise_multiplier": 2.0} if algorithm == "const-d2p" else {}
    given = {"model": nn.Linear(3, 1)} | noise | given
    with pytest.raises(tacit.TacitError, match=r"declare what y is, labels=\[...\] .* range=\(low, high\)") as caught:
        tacit.train(data=(x, numbers), nodes=2, algorithm=algorithm, **given)
    assert "35" not in str(caught.value)


def test_records_as_two_arguments_are_refused():
    with pytest.raises(tacit.TacitError, match=r"pass the records as one pair: tacit.train\(model, \(x, y\)\)"):
        tacit.train(nn.Linear(3, 2), X, Y)


def test_nodes_of_the_size_of_the_graph_are_accepted():
    assert quick(graph=nx.cycle_graph(4), nodes=4).task.n == 4
