"""Topologies against their definitions, for 1 to 64 peers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kungfu_tf import topology

STATIC = {
    "ring": topology.ring(),
    "directed ring": topology.ring(directed=True),
    "star": topology.star(),
    "grid": topology.grid(),
    "torus": topology.grid(torus=True),
    "fully connected": topology.fully_connected(),
    "hypercube": topology.hypercube(),
    "exp2": topology.exponential(),
    "exp3": topology.exponential(base=3),
    "symmetric exp4": topology.symmetric_exponential(),
    "equi-static": topology.equi_static(4, seed=1),
}
DYNAMIC = {
    "one-peer exp2": topology.one_peer_exponential(),
    "one-peer ring": topology.one_peer(topology.ring()),
    "one-peer star": topology.one_peer(topology.star()),
    "one-peer exp3": topology.one_peer(topology.exponential(base=3)),
    "base-2": topology.base_graph(),
    "base-3": topology.base_graph(degree=2),
    "base-5": topology.base_graph(degree=4),
    "equi-dynamic": topology.equi_dynamic(seed=2),
    "random matching": topology.random_matching(seed=3),
}
ALL = {**STATIC, **DYNAMIC}
SIZES = range(1, 65)
SOME_SIZES = (*range(1, 18), 31, 32, 33, 63, 64)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", SOME_SIZES)
def test_makes_means_among_all_peers(name, size):
    graph = ALL[name]
    topology.check(graph, size)
    assert graph.is_doubly_stochastic(size)
    assert graph.is_connected(size)
    assert graph.at(graph.length(size) + 1, size).tolist() == graph.at(1, size).tolist()


@pytest.mark.parametrize("name", ["ring", "star", "grid", "torus", "hypercube", "symmetric exp4"])
@pytest.mark.parametrize("size", SOME_SIZES)
def test_is_symmetric(name, size):
    topology.check(ALL[name], size, symmetric=True)
    assert ALL[name].is_symmetric(size)


@pytest.mark.parametrize("name", DYNAMIC)
@pytest.mark.parametrize("size", SOME_SIZES)
def test_the_most_partners_in_a_step(name, size):
    most = min({"base-3": 2, "base-5": 4}.get(name, 1), size - 1)
    assert min(1, most) <= ALL[name].degree(size) <= most


@pytest.mark.parametrize("size", SIZES)
def test_neighbors_are_the_rows_and_columns(size):
    graph = topology.exponential()
    matrix = graph.at(0, size)
    for rank in range(size):
        mine = graph.neighbors(0, rank, size)
        row, column = np.zeros(size), np.zeros(size)
        row[rank] = column[rank] = mine.self_weight
        row[list(mine.sources)] = list(mine.sources.values())
        column[list(mine.targets)] = list(mine.targets.values())
        assert row.tolist() == matrix[rank].tolist()
        assert column.tolist() == matrix[:, rank].tolist()
        assert list(mine.sources) == sorted(mine.sources)


def test_neighbors_by_hand():
    found = topology.ring(directed=True).neighbors(0, 1, 4)
    assert found == topology.Neighbors(0.5, {0: 0.5}, {2: 0.5})


def test_one_of_a_program():
    alternating = topology.Topology(
        "alternating()",
        lambda size: 2,
        lambda size, step: np.eye(size) if step else np.full((size, size), 1 / size),
    )
    topology.check(alternating, 5)
    assert alternating.exact_steps(5) == 1
    assert alternating.at(3, 5).tolist() == np.eye(5).tolist()


def test_weights_by_hand():
    third, half, fifth = 1 / 3, 1 / 2, 1 / 5
    expected = {
        topology.ring(): [
            [third, third, 0, third],
            [third, third, third, 0],
            [0, third, third, third],
            [third, 0, third, third],
        ],
        topology.ring(directed=True): [
            [half, 0, 0, half],
            [half, half, 0, 0],
            [0, half, half, 0],
            [0, 0, half, half],
        ],
        topology.star(center=1): np.array([[3, 1, 0, 0], [1, 1, 1, 1], [0, 1, 3, 0], [0, 1, 0, 3]])
        / 4,
        topology.exponential(): np.array([[1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1]])
        / 3,
        topology.hypercube(): np.array([[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]])
        / 3,
        topology.fully_connected(): np.full((4, 4), 0.25),
    }
    for graph, matrix in expected.items():
        np.testing.assert_allclose(graph.at(0, 4), matrix, rtol=0, atol=1e-15, err_msg=repr(graph))
    torus = topology.grid(torus=True).at(0, 16)
    assert np.flatnonzero(torus[0]).tolist() == [0, 1, 3, 4, 12]
    np.testing.assert_allclose(torus[0, 1], fifth)
    grid = topology.grid().at(0, 12)
    assert np.flatnonzero(grid[5]).tolist() == [1, 4, 5, 6, 9]


def test_one_peer_exponential_by_hand():
    for step, matrix in enumerate(topology.one_peer_exponential().matrices(6)):
        for rank, other in itertools.product(range(6), repeat=2):
            taken = 0.5 * (other == rank) + 0.5 * (other == (rank - 2**step) % 6)
            assert matrix[rank, other] == taken


@pytest.mark.parametrize("size", SIZES)
def test_one_peer_of_distances_takes_one_distance_after_the_other(size):
    found = topology.one_peer(topology.exponential()).matrices(size)
    by_bit = topology.one_peer_exponential().matrices(size)
    symmetric = topology.exponential().is_symmetric(size)
    assert symmetric or [m.tolist() for m in found] == [m.tolist() for m in by_bit]


@pytest.mark.parametrize("size", SIZES)
def test_the_steps_of_one_peer_are_the_links_of_the_other(size):
    for other in (topology.ring(), topology.hypercube(), topology.exponential(base=3)):
        links = sum(matrix != 0 for matrix in topology.one_peer(other).matrices(size)) > 0
        assert links.tolist() == (other.at(0, size) != 0).tolist()
    ring = topology.one_peer(topology.ring())
    assert ring.length(size) == (3 if size > 2 and size % 2 else 2 if size > 2 else 1)


@pytest.mark.parametrize("size", SIZES)
def test_random_matching_is_a_tournament(size):
    met = sum(np.triu(matrix, 1) > 0 for matrix in topology.random_matching(seed=5).matrices(size))
    assert met.tolist() == np.triu(np.ones((size, size), int), 1).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_equi_dynamic_takes_every_distance_once(size):
    matrices = topology.equi_dynamic(seed=5).matrices(size)
    shifts = [int(np.flatnonzero(matrix[0])[-1]) for matrix in matrices]
    assert sorted(shifts) == list(range(1, size)) or size == 1


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("size", SIZES)
def test_base_graphs_are_exact(degree, size):
    graph = topology.base_graph(degree=degree)
    assert graph.exact_steps(size) is not None
    assert graph.is_symmetric(size)
    product = np.eye(size)
    for matrix in graph.matrices(size):
        product = matrix @ product
    np.testing.assert_allclose(product, np.full((size, size), 1 / size), rtol=0, atol=3e-16)


@pytest.mark.parametrize("size", SIZES)
def test_one_peer_exponential_is_exact_for_powers_of_two_only(size):
    exact = topology.one_peer_exponential().exact_steps(size)
    assert exact == ((size - 1).bit_length() if size & (size - 1) == 0 else None)


def test_a_base_graph_of_a_power_of_two_is_a_hypercube_one_bit_at_a_time():
    for step, matrix in enumerate(topology.base_graph().matrices(8)):
        for rank in range(8):
            assert np.flatnonzero(matrix[rank]).tolist() == sorted([rank, rank ^ (1 << step)])


def test_random_ones_depend_on_the_seed_alone():
    for make in (topology.equi_dynamic, topology.random_matching):
        first, again, other = make(seed=1), make(seed=1), make(seed=2)
        assert np.array_equal(first.matrices(9), again.matrices(9))
        assert not np.array_equal(first.matrices(9), other.matrices(9))


def test_equal_if_made_in_the_same_way():
    assert topology.ring() == topology.ring()
    assert topology.ring() != topology.ring(directed=True)
    assert topology.one_peer(topology.ring()) == topology.one_peer(topology.ring())
    assert len({topology.star(), topology.star(), topology.star(center=1)}) == 2
    assert repr(topology.base_graph(degree=2)) == "base_graph(degree=2)"


def test_matrices_cannot_be_changed():
    for graph in (topology.ring(), topology.base_graph()):
        with pytest.raises(ValueError, match="read-only"):
            graph.at(0, 4)[0, 0] = 1
