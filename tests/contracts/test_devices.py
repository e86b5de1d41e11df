"""Every algorithm, compressor, mechanism and sampling kind computes the same on a device as on the CPU.

The device is the shadow device of tests/devices, on which an operation with a tensor in main memory raises, or real
hardware: TACIT_TEST_DEVICE=cuda make test.
"""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.algorithms import MixingOptions, Stepper, compressors
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import sampling_kinds
from tacit.tasks import Clip, sum_together
from tests.contracts.test_algorithms import ALGORITHMS, digits, graph_for, private
from tests.contracts.test_mechanisms import MECHANISMS, bounded, example
from tests.contracts.test_mixing_options import accepted
from tests.devices.under_test import DEVICE, DTYPE, IS_SHADOW, SameNoise, on_device, same_noise
from tests.helpers import run_steps

CPU = torch.device("cpu")
NODES = 5
COPIES_FOR_THE_LEDGER = dict.fromkeys(["partpsp", "pedfl", "sgpdp"], 5)  # norms that decide a sensitivity
FOR_THE_LEDGER = {"memory", "sensitivities"}  # numbers in double precision, which are in main memory


def result(name, device, rounds=3, algorithm=None, **params):
    """The models and the state after some rounds, with the noise of devices."""
    task = same_noise(digits(name, device=device, dtype=DTYPE, **params))
    network = Simulated(graph_for(name, task.n))
    network.device = device
    algorithm = algorithm or private(name, rounds)
    return run_steps(algorithm.bind(task.without_records(gradients=False), network.graph), task, network, rounds)


def check_same(on_cpu, found):
    assert found.device == DEVICE
    torch.testing.assert_close(found.cpu(), on_cpu, rtol=1e-6, atol=1e-6, check_device=False)


def tensors(state):
    for name, value in vars(state).items():
        if name not in FOR_THE_LEDGER:
            yield from tensors(value) if dataclasses.is_dataclass(value) else [value]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_rounds_on_a_device_give_the_models_of_the_cpu_and_keep_the_state_there(name):
    expected, _ = result(name, CPU)
    with on_device():
        found, state = result(name, DEVICE)
        check_same(expected, found)
        assert {value.device for value in tensors(state)} == {DEVICE}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_options_work_on_a_device(name):
    algorithm = replace(private(name, 2), mixing=MixingOptions(**accepted(name)))
    expected, _ = result(name, CPU, 2, algorithm)
    with on_device():
        check_same(expected, result(name, DEVICE, 2, algorithm)[0])


@pytest.mark.parametrize("name", list(compressors))
def test_compressors_work_on_a_device(name):
    algorithm = private("porter", 2, compressor=name)
    expected, _ = result("porter", CPU, 2, algorithm)
    with on_device():
        check_same(expected, result("porter", DEVICE, 2, algorithm)[0])


@pytest.mark.parametrize("kind", list(sampling_kinds))
def test_gradients_of_every_sampling_kind_work_on_a_device(kind):
    batch = None if kind == "none" else 8

    def gradient(device):
        task = same_noise(digits("dp-sgd", device=device, dtype=DTYPE, sampling=kind, batch=batch))
        return torch.stack([task.gradient(task.initial(), step, Clip(0.5)).value for step in range(3)])

    expected = gradient(CPU)
    with on_device():
        check_same(expected, gradient(DEVICE))


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_release_on_a_device_what_the_cpu_releases_with_the_same_words(name):
    exact = torch.linspace(-3, 3, 3 * 700, dtype=DTYPE).view(3, 700)
    noise = SameNoise(bytes(32), reproducible=True, seed=0)
    expected = example(name).release(bounded(exact.clone(), noise=noise))
    with on_device() as transfers:
        check_same(expected, example(name).release(bounded(exact.to(DEVICE), noise=noise)))
        if IS_SHADOW:
            transfers.reads.clear()
            example(name).release(bounded(exact.to(DEVICE), noise=noise))
            assert not transfers.reads


@pytest.mark.parametrize("graph", ["ring", "one-peer-exponential"])
def test_the_verbs_of_a_simulation_work_on_a_device(graph):
    def verbs(device):
        network = Simulated(graphs.build(graph, {"nodes": 8}))
        network.device = device
        x = torch.from_numpy(np.random.default_rng(0).normal(size=(8, 5))).to(DTYPE).to(device)
        found = [*network.mix(3, x, x[:, 0]), network.mean(x), network.max(x[:, 0])]
        if graph == "ring":
            row = network.edges(0).row
            only = torch.arange(len(row)) % 3 > 0
            only = only & only[Simulated._opposite(network, 0)]
            found += [network.swap(0, x[row]), network.swap(0, x[row], only)]
        return torch.cat([each.reshape(-1) for each in found])

    expected = verbs(CPU)
    with on_device():
        check_same(expected, verbs(DEVICE))


@dataclasses.dataclass
class Work:
    """What a round asked for, and how often the computer waited for the device."""

    clipped: int = 0
    messages: int = 0
    reads: int = 0
    copies: int = 0


def work_of_a_round(name, transfers, algorithm=None):
    """The third round: nothing is prepared in it that later rounds use again."""
    task = same_noise(digits(name, device=DEVICE, dtype=DTYPE))
    network = Simulated(graph_for(name, task.n))
    network.device = DEVICE
    stepper = Stepper((algorithm or private(name, 3)).bind(task.without_records(gradients=False), network.graph))
    state, work = stepper.start(task, network.graph), Work()

    def counted(request):
        work.clipped += request.point.clip is not None
        return sum_together([request])[0]

    for t in range(3):
        if t == 2:
            task.sum_gradients, work.messages = counted, -network.traffic.rounds
            transfers.reads.clear()
            transfers.to_host.clear()
        state = stepper.step(t, state, task, network, last=t == 2)
    work.messages += network.traffic.rounds
    work.reads, work.copies = transfers.reads.total(), len(transfers.to_host)
    assert max(transfers.to_host, default=0) <= 3 * NODES
    return work


@pytest.mark.skipif(not IS_SHADOW, reason="transfers are counted on the shadow device")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_round_reads_whether_gradients_and_messages_are_finite_and_nothing_else(name):
    """One number per clipped gradient and one per message. Only DPPS also copies norms, for the ledger."""
    with on_device() as transfers:
        work = work_of_a_round(name, transfers)
    assert work.messages > 0 or name == "one-shot-ridge"  # which sends in its first round only
    assert work.reads == work.clipped + work.messages
    assert work.copies == COPIES_FOR_THE_LEDGER.get(name, 0)


@pytest.mark.skipif(not IS_SHADOW, reason="transfers are counted on the shadow device")
@pytest.mark.parametrize("option", [*compressors, "mixing"])
def test_compressors_and_mixing_options_read_no_other_numbers(option):
    given = {"mixing": MixingOptions(**accepted("porter"))} if option == "mixing" else {"compressor": option}
    with on_device() as transfers:
        work = work_of_a_round("porter", transfers, private("porter", 3, **given))
    assert work.messages > 1
    assert work.reads == work.clipped + work.messages
    assert work.copies == 0
