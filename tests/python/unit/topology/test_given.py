"""Topologies of matrices, graphs and edges that a program has."""

from __future__ import annotations

import numpy as np
import pytest

from kungfu_tf import errors, topology


def test_from_one_matrix_and_from_several():
    swap = np.array([[0.25, 0.75], [0.75, 0.25]])
    one, several = topology.from_matrix(swap), topology.from_matrix([np.eye(2), swap])
    assert one.at(7, 2).tolist() == swap.tolist()
    assert [several.at(step, 2).tolist() for step in (1, 2)] == [swap.tolist(), np.eye(2).tolist()]
    assert one == topology.from_matrix(swap.tolist())
    assert one != topology.from_matrix(np.eye(2))
    assert hash(one) == hash(topology.from_matrix(swap))


def test_what_was_given_may_change_afterwards():
    mine = np.eye(2)
    graph = topology.from_matrix(mine)
    mine[0, 0] = 5
    assert graph.at(0, 2)[0, 0] == 1


def test_of_one_size_only():
    graph = topology.from_matrix(np.eye(4))
    with pytest.raises(errors.InvalidArgumentError, match="is for 4 peers, and there are 3"):
        graph.at(0, 3)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (0, 0), (1, 2, 3), (1, 1, 2, 2)])
def test_what_is_no_matrix(shape):
    with pytest.raises(errors.InvalidArgumentError, match="from_matrix: an array of shape"):
        topology.from_matrix(np.ones(shape))


def test_metropolis_by_hand():
    graph = topology.metropolis([(0, 1), (2, 1), (1, 3), (1, 0)])
    expected = np.array([[3, 1, 0, 0], [1, 1, 1, 1], [0, 1, 3, 0], [0, 1, 0, 3]]) / 4
    np.testing.assert_allclose(graph.at(0, 4), expected)
    for edges in ([], [(0, -1)]):
        with pytest.raises(errors.InvalidArgumentError, match="no edges"):
            topology.metropolis(edges)


def test_to_networkx_and_back():
    networkx = pytest.importorskip("networkx")
    for original in (topology.star(), topology.exponential(), topology.base_graph()):
        graph = original.to_networkx(6, step=1)
        assert isinstance(graph, networkx.DiGraph)
        again = topology.from_networkx(graph)
        np.testing.assert_array_equal(again.at(0, 6), original.at(1, 6))
    edge = topology.ring(directed=True).to_networkx(3).edges[0, 1]
    assert edge["weight"] == 0.5  # rank 1 takes from rank 0


def test_graphs_without_weights():
    networkx = pytest.importorskip("networkx")
    undirected = topology.from_networkx(networkx.cycle_graph(5))
    np.testing.assert_allclose(undirected.at(0, 5), topology.ring().at(0, 5), rtol=1e-15)
    directed = topology.from_networkx(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    expected = [[1 / 2, 0, 1 / 2], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(directed.at(0, 3), expected)
    with pytest.raises(errors.InvalidArgumentError, match="nodes of 2 peers are 0 to 1"):
        topology.from_networkx(networkx.Graph([("a", "b")]))


def test_weights_without_own_ones():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_edge(0, 1, weight=0.25)
    expected = [[0.75, 0.25], [0.25, 0.75]]
    assert topology.from_networkx(graph).at(0, 2).tolist() == expected


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], "row 0 adds up to 0.9, not to 1"),
        ([[0.5, 0.5], [0.25, 0.75]], "column 0 adds up to 0.75, not to 1"),
        ([[1.5, -0.5], [-0.5, 1.5]], "the weight in row 0, column 1 is -0.5"),
        ([[np.nan, 1], [1, 0]], "the weight in row 0, column 0 is nan"),
        ([np.full((2, 2), 0.5), [[1, 0], [1, 0]]], "at step 1: column 0 adds up to 2"),
        (np.eye(3), "ranks 0 and 1 never exchange values"),
    ],
)
def test_check(matrices, message):
    graph = topology.from_matrix(matrices)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        topology.check(graph, len(np.asarray(matrices)[-1]))


@pytest.mark.parametrize("size", [3, 7, 100])
def test_weights_of_float32(size):
    graph = topology.from_matrix(np.full((size, size), 1 / size, np.float32))
    topology.check(graph, size)
    assert graph.is_doubly_stochastic(size)


def test_check_of_less():
    rows = topology.from_matrix([[0.5, 0.5], [0.25, 0.75]])
    topology.check(rows, 2, doubly=False)
    topology.check(topology.exponential(), 5)
    with pytest.raises(errors.InvalidArgumentError, match="rank 0 takes 0 of rank 2, which takes"):
        topology.check(topology.exponential(), 5, symmetric=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: topology.base_graph(degree=0),
        lambda: topology.equi_static(0),
        lambda: topology.exponential(base=1),
        lambda: topology.symmetric_exponential(base=1),
        lambda: topology.star(center=3).at(0, 3),
        lambda: topology.ring().at(0, 0),
        lambda: topology.ring().neighbors(0, 3, 3),
        lambda: topology.one_peer(topology.from_matrix([[1, 0, 0], [1, 0, 0], [0, 0, 1]])).at(0, 3),
    ],
)
def test_what_cannot_be(make):
    with pytest.raises(errors.InvalidArgumentError):
        make()
