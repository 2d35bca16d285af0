"""Topologies against figures of the literature, and of their theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kungfu_tf import topology

# The steps of a cycle, and the most partners, of base-2, base-3 and base-5 graphs.
CYCLES = {
    3: ((3, 1), (1, 2), (1, 2)),
    5: ((5, 1), (3, 2), (1, 4)),
    6: ((4, 1), (2, 2), (2, 2)),
    7: ((5, 1), (4, 2), (3, 4)),
    12: ((5, 1), (3, 2), (2, 3)),
    25: ((9, 1), (6, 2), (2, 4)),
    63: ((11, 1), (6, 2), (5, 4)),
}
# 1 − ‖W − J‖₂ for 16 peers.
GAPS = {
    topology.ring(): 0.051,
    topology.star(): 0.0625,
    topology.grid(): 0.131,
    topology.grid(torus=True): 0.400,
    topology.exponential(): 0.400,
    topology.hypercube(): 0.400,
}
# For so many peers: after so many steps the distance from the mean is at most 1e-10 of the first.
ITERATIONS = {
    8: {topology.ring(): 106, topology.star(): 173, topology.exponential(): 34},
    12: {topology.ring(): 247, topology.star(): 265, topology.grid(): 157},
    16: {
        topology.ring(): 443,
        topology.star(): 357,
        topology.grid(): 164,
        topology.grid(torus=True): 46,
        topology.exponential(): 46,
        topology.hypercube(): 46,
    },
}


@pytest.mark.parametrize("size", CYCLES)
def test_cycles_of_base_graphs(size):
    found = [topology.base_graph(degree=degree) for degree in (1, 2, 4)]
    assert tuple((g.exact_steps(size), g.degree(size)) for g in found) == CYCLES[size]
    assert [g.length(size) for g in found] == [steps for steps, _ in CYCLES[size]]


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64])
def test_powers_of_two_take_as_many_steps_as_they_have_bits(size):
    bits = size.bit_length() - 1
    for degree in (1, 2):
        graph = topology.base_graph(degree=degree)
        assert (graph.exact_steps(size), graph.degree(size)) == (bits, 1)
    assert topology.one_peer_exponential().exact_steps(size) == bits
    assert topology.exponential().spectral_gap(size) == pytest.approx(2 / (1 + bits))


@pytest.mark.parametrize(
    ("size", "error"),
    [(3, 1.7e-1), (5, 7.5e-2), (6, 8.3e-2), (7, 1.1e-1), (12, 4.2e-2), (25, 2.2e-2), (63, 1.5e-2)],
)
def test_the_error_that_one_peer_exponential_leaves(size, error):
    product = np.linalg.multi_dot(topology.one_peer_exponential().matrices(size)[::-1])
    assert np.abs(product - 1 / size).max() == pytest.approx(error, rel=0.06)


@pytest.mark.parametrize("graph", GAPS, ids=repr)
def test_gaps(graph):
    assert graph.spectral_gap(16) == pytest.approx(GAPS[graph], abs=5e-4)
    assert graph.exact_steps(16) is None


def test_the_gap_of_a_cycle_whose_mean_is_exact():
    assert topology.base_graph().spectral_gap(12) == pytest.approx(1)
    assert topology.fully_connected().spectral_gap(12) == pytest.approx(1)


@pytest.mark.parametrize(
    ("size", "graph"), [(size, graph) for size in ITERATIONS for graph in ITERATIONS[size]]
)
def test_iterations(size, graph):
    matrix, most = graph.at(0, size), ITERATIONS[size][graph]
    distances = [
        np.linalg.norm(np.linalg.matrix_power(matrix, steps) - 1 / size, 2)
        for steps in (most - 1, most)
    ]
    assert distances[1] <= 1e-10 < distances[0]
    predicted = math.log(1e-10) / math.log(1 - graph.spectral_gap(size))
    assert math.ceil(predicted) == most
