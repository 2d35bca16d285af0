"""Mixing within hosts and between them, against its definition, for 1 to 64 peers."""

from __future__ import annotations

import numpy as np
import pytest

from kungfu_tf import errors, topology

WHOLE = [(size, local) for local in (1, 2, 3, 4, 8) for size in range(1, 65) if size % local == 0]


@pytest.mark.parametrize(("size", "local"), WHOLE)
def test_the_cycle_by_its_definition(size: int, local: int) -> None:
    """Element by element: x has a row for each host."""
    across, within = topology.base_graph(), topology.ring()
    x = np.random.default_rng(size).normal(size=size)
    hosts = x.reshape(-1, local)
    for a in across.matrices(len(hosts)):
        if local > 1:
            hosts = np.array([within.at(0, local) @ host for host in hosts])
        if len(hosts) > 1:
            hosts = np.array([a @ of_place for of_place in hosts.T]).T
    graph = topology.hierarchical(across, local, within=within)
    for matrix in graph.matrices(size):
        x = matrix @ x
    np.testing.assert_allclose(x, hosts.ravel(), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("size", "local"), WHOLE)
def test_the_mean_is_exact(size: int, local: int) -> None:
    graph = topology.hierarchical(topology.base_graph(), local)
    topology.check(graph, size)
    assert graph.is_doubly_stochastic(size) and graph.is_connected(size)
    hosts = size // local
    between = topology.base_graph().exact_steps(hosts) or 0
    within = 1 if local > 1 else 0
    assert graph.exact_steps(size) == (between * (within + 1) if hosts > 1 else within)
    assert graph.degree(size) == max(local - 1, min(1, hosts - 1))


def test_two_hosts_by_hand() -> None:
    graph = topology.hierarchical(topology.fully_connected(), 2)
    half = 1 / 2
    assert [matrix.tolist() for matrix in graph.matrices(4)] == [
        [[half, half, 0, 0], [half, half, 0, 0], [0, 0, half, half], [0, 0, half, half]],
        [[half, 0, half, 0], [0, half, 0, half], [half, 0, half, 0], [0, half, 0, half]],
    ]


def test_fewer_peers_than_a_host_has_are_one_host() -> None:
    graph = topology.hierarchical(topology.base_graph(), 4)
    assert graph.matrices(3)[0].tolist() == np.full((3, 3), 1 / 3).tolist()
    assert graph.length(3) == 1
    assert graph.matrices(1)[0].tolist() == [[1]]


def test_equal_if_made_in_the_same_way() -> None:
    make = lambda local: topology.hierarchical(topology.ring(), local)  # noqa: E731
    assert make(2) == make(2) != make(4)
    assert repr(make(2)).startswith("hierarchical(ring(directed=False), 2, within=")


def test_no_whole_number_of_hosts() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="6 peers are no whole number of hosts"):
        topology.hierarchical(topology.ring(), 4).at(0, 6)
    with pytest.raises(errors.InvalidArgumentError, match="0 peers on a host"):
        topology.hierarchical(topology.ring(), 0)
