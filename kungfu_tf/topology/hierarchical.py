"""Topologies of peers on several hosts: mixing within each host, then between the hosts."""

from __future__ import annotations

import operator

import numpy as np

from kungfu_tf import errors
from kungfu_tf.topology.static import fully_connected
from kungfu_tf.topology.topology import Matrix, Topology, cycle


def hierarchical(across: Topology, local_size: int, *, within: Topology | None = None) -> Topology:
    """Each step between the hosts comes after a cycle within them.

    ```
    W = I ⊗ B        # for each matrix B of `within`: each host mixes its own peers
    W = A ⊗ I        # then the next matrix A of `across`: peers with the same place on their hosts
    ```

    A host has `local_size` peers of successive ranks, as `kungfu-run` places them. If both
    topologies come to the exact mean, so does this one. Between the hosts a peer sends to the
    neighbours that its host has in `across`, and to no more.

    Sources: Ying et al., "BlueFog: Make Decentralized Algorithms Practical for Optimization and
    Deep Learning", 2021 (its hierarchical averaging, and its inner-outer graphs).

    Args:
        across: The topology of the hosts.
        local_size: The number of peers of a host, from 1. It must divide that of all; if these are
            fewer, they are one host.
        within: The topology of the peers of one host. Default: all take the mean, in one step.

    Raises:
        InvalidArgumentError: If `local_size` is less than 1; or, when the size is known, if it does
            not divide it.

    Example:

    ```python
    graph = kf.topology.hierarchical(kf.topology.base_graph(), kf.local_size())
    graph.exact_steps(8)  # 2 with two hosts: the mean of each host, then that of both
    ```
    """
    if operator.index(local_size) < 1:
        raise errors.InvalidArgumentError(f"hierarchical: {local_size} peers on a host")
    inner = fully_connected() if within is None else within
    text = f"hierarchical({across}, {local_size}, within={inner})"

    def matrices(size: int) -> list[Matrix]:
        local = min(local_size, size)
        if size % local:
            raise errors.InvalidArgumentError(
                f"{text}: {size} peers are no whole number of hosts with {local} each"
            )
        hosts = size // local
        mixing = [_product(np.eye(hosts), b) for b in inner.matrices(local)] if local > 1 else []
        if hosts == 1:
            return mixing or [np.eye(1)]
        between = [_product(a, np.eye(local)) for a in across.matrices(hosts)]
        return [matrix for a in between for matrix in (*mixing, a)]

    return cycle(text, matrices, key=("hierarchical", across, local_size, inner))


def _product(hosts: Matrix, places: Matrix) -> Matrix:
    """⊗: the weight between two ranks is that of their hosts times that of their places."""
    product: Matrix = np.kron(hosts, places).astype(np.float64)
    return product
