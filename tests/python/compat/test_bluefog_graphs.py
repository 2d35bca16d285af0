"""BlueFog's graphs and iterators, against their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("packages")
SIZES = [1, 2, 3, 4, 5, 8, 12, 17]


@pytest.fixture(scope="module")
def graphs(packages: None) -> Any:
    from bluefog.common import topology_util

    return topology_util


def circulant(size: int, distances: set[int]) -> np.ndarray:
    """Each node has edges to itself and to those at these distances, all of one weight."""
    steps = {0} | {distance % size for distance in distances}
    edges = np.zeros((size, size))
    for node, step in itertools.product(range(size), steps):
        edges[node, (node + step) % size] = 1 / len(steps)
    return edges


def powers(base: int, end: int) -> set[int]:
    return {base**k for k in range(20) if base**k < end}


@pytest.mark.parametrize("size", SIZES)
def test_circulant_graphs(size: int, graphs: Any) -> None:
    expected = {
        graphs.ExponentialTwoGraph: powers(2, size),
        graphs.ExponentialGraph: powers(2, size),
        graphs.FullyConnectedGraph: set(range(size)),
        graphs.RingGraph: {1, -1},
        lambda n: graphs.RingGraph(n, 1): {1} if size == 2 else {-1},
        lambda n: graphs.RingGraph(n, connect_style=2): {1},
        lambda n: graphs.ExponentialGraph(n, base=3): powers(3, size),
        lambda n: graphs.SymmetricExponentialGraph(n): {
            sign * distance for distance in powers(4, size // 2 + 1) for sign in (1, -1)
        },
    }
    for make, distances in expected.items():
        graph = make(size)
        assert isinstance(graph, nx.DiGraph)
        np.testing.assert_array_equal(nx.to_numpy_array(graph), circulant(size, distances))
        assert graphs.IsRegularGraph(graph)


@pytest.mark.parametrize("size", SIZES)
def test_a_star_and_a_grid_have_metropolis_weights(size: int, graphs: Any) -> None:
    center = size // 2
    star = [(center, node) for node in range(size) if node != center]
    assert_metropolis(graphs.StarGraph(size, center_rank=center), star)
    rows = max(n for n in range(1, size + 1) if size % n == 0 and n * n <= size)
    for graph, columns in [(graphs.MeshGrid2DGraph(size), size // rows)] + [
        (graphs.MeshGrid2DGraph(size, shape=(size // 2, 2)), 2) for _ in range(1 - size % 2)
    ]:
        places = [divmod(node, columns) for node in range(size)]
        near = [
            (a, b)
            for a, b in itertools.combinations(range(size), 2)
            if abs(places[a][0] - places[b][0]) + abs(places[a][1] - places[b][1]) == 1
        ]
        assert_metropolis(graph, near)


def assert_metropolis(graph: nx.DiGraph, edges: list[tuple[int, int]]) -> None:
    """Nodes of an edge take 1/(1 + their larger degree) of each other, the rest of themselves."""
    size = graph.number_of_nodes()
    degrees = np.bincount(np.ravel(edges).astype(int), minlength=size)
    expected = np.zeros((size, size))
    for a, b in edges:
        expected[a, b] = expected[b, a] = 1 / (1 + max(degrees[a], degrees[b]))
    expected += np.diag(1 - expected.sum(axis=1))
    np.testing.assert_allclose(nx.to_numpy_array(graph), expected, rtol=0, atol=1e-15)


def test_weights_and_comparison(graphs: Any) -> None:
    matrix = np.array([[0.5, 0.25, 0.25], [0.0, 0.75, 0.25], [1.0, 0.0, 0.0]])
    graph = nx.from_numpy_array(matrix, create_using=nx.DiGraph)
    assert graphs.GetRecvWeights(graph, 0) == (0.5, {2: 1.0})
    assert graphs.GetRecvWeights(graph, 2) == (0.0, {0: 0.25, 1: 0.25})
    assert graphs.GetSendWeights(graph, 0) == (0.5, {1: 0.25, 2: 0.25})
    assert not graphs.IsRegularGraph(graph)
    assert graphs.IsTopologyEquivalent(graph, graph.copy())
    assert not graphs.IsTopologyEquivalent(graph, graphs.RingGraph(3))
    assert not graphs.IsTopologyEquivalent(graph, graphs.RingGraph(4))
    assert not graphs.IsTopologyEquivalent(graph, None)
    powers_of_3 = [x for x in range(1, 250) if graphs.isPowerOf(x, 3)]
    assert powers_of_3 == [1, 3, 9, 27, 81, 243]


def steps(iterators: list[Any], count: int) -> list[list[tuple[list[int], list[int]]]]:
    """What each rank does in each of the first steps."""
    return [[next(iterator) for iterator in iterators] for _ in range(count)]


def assert_agreed(step: list[tuple[list[int], list[int]]]) -> None:
    """Who receives from whom is who is sent to by whom."""
    sent = {(rank, to) for rank, (targets, _) in enumerate(step) for to in targets}
    received = {(of, rank) for rank, (_, sources) in enumerate(step) for of in sources}
    assert sent == received
    assert all(a != b for a, b in sent)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_one_peer_of_a_graph_after_the_other(size: int, graphs: Any) -> None:
    graph = graphs.ExponentialGraph(size)
    distances = sorted(powers(2, size))
    every = steps([graphs.GetDynamicOnePeerSendRecvRanks(graph, r) for r in range(size)], 12)
    for number, step in enumerate(every):
        assert_agreed(step)
        distance = distances[number % len(distances)]
        assert [targets for targets, _ in step] == [[(r + distance) % size] for r in range(size)]


@pytest.mark.parametrize(("local", "hosts"), [(3, 2), (3, 3), (4, 2), (4, 5), (5, 4)])
def test_one_rank_of_each_machine_goes_out(local: int, hosts: int, graphs: Any) -> None:
    size = local * hosts
    for make, far, near in [
        (graphs.GetInnerOuterRingDynamicSendRecvRanks, [1], [1]),
        (
            graphs.GetInnerOuterExpo2DynamicSendRecvRanks,
            sorted(powers(2, hosts)),
            sorted(powers(2, local - 1)),
        ),
    ]:
        every = steps([make(size, local, rank) for rank in range(size)], 3 * local)
        for number, step in enumerate(every):
            assert_agreed(step)
            out = number % local
            inside = [place for place in range(local) if place != out]
            for rank, ([target], _) in enumerate(step):
                machine, place = divmod(rank, local)
                if place == out:
                    to = (machine + far[number % len(far)]) % hosts, place
                else:
                    behind = inside.index(place) + near[number % len(near)]
                    to = machine, inside[behind % len(inside)]
                assert divmod(target, local) == to


@pytest.mark.parametrize(("local", "hosts"), [(1, 2), (2, 3), (2, 4), (3, 5)])
def test_machines_at_growing_distances(local: int, hosts: int, graphs: Any) -> None:
    distances = sorted(powers(2, hosts))
    for rank in range(local * hosts):
        made = graphs.GetExp2DynamicSendRecvMachineRanks(local * hosts, local, rank, rank % local)
        machine = rank // local
        for number, step in enumerate(itertools.islice(made, 9)):
            distance = distances[number % len(distances)]
            assert step == ([(machine + distance) % hosts], [(machine - distance) % hosts])


def test_machines_of_different_sizes(graphs: Any) -> None:
    for make, arguments in [
        (graphs.GetExp2DynamicSendRecvMachineRanks, (5, 2, 0, 0)),
        (graphs.GetInnerOuterRingDynamicSendRecvRanks, (7, 3, 0)),
        (graphs.GetInnerOuterExpo2DynamicSendRecvRanks, (4, 2, 0)),
    ]:
        with pytest.raises(AssertionError):
            next(make(*arguments))
