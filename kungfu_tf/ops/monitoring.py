"""The peers' measurements of the network between them, as operations of a graph.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from typing import Any

from kungfu_tf.groups import Group
from kungfu_tf.ops import collective, kernels, naming, strategy


@kernels.operation
def egress_rates(*, name: str | None = None) -> Any:
    """Returns how many bytes per second go to each peer.

    The rate is over about the last second. All bytes count, in messages and in memory that peers of
    one host share: see `egress_total_bytes` in the reference of metrics.

    Args:
        name: The name of the graph's operation.

    Returns:
        float32[size], by rank; 0 for this peer itself.

    Raises:
        tf.errors.FailedPreconditionError: If the peer cannot start, or has been shut down.

    Example:

    ```python
    busiest = tf.argmax(kf.ops.egress_rates())
    ```
    """
    return _rates(name)[0]


@kernels.operation
def ingress_rates(*, name: str | None = None) -> Any:
    """Returns how many bytes per second come from each peer: see `egress_rates`.

    Args:
        name: The name of the graph's operation.

    Returns:
        float32[size], by rank; 0 for this peer itself.

    Raises:
        tf.errors.FailedPreconditionError: If the peer cannot start, or has been shut down.

    Example:

    ```python
    total = tf.reduce_sum(kf.ops.ingress_rates())
    ```
    """
    return _rates(name)[1]


def _rates(name: str | None) -> tuple[Any, Any]:
    kernels.check_graph("rates")
    rates = kernels.library().kungfu_traffic_rates(name=name)
    return rates.egress, rates.ingress


@kernels.operation
def get_peer_latencies(*, timeout: float = 5.0, name: str | None = None) -> Any:
    """Measures how long each peer takes to answer.

    Each peer is asked several times, over the connections that the collectives use; the shortest
    time counts. The other peers need not call it.

    Args:
        timeout: How many seconds all of them may take together.
        name: The name of the graph's operation.

    Returns:
        float32[size]: seconds by rank; 0 for this peer itself, infinity for a peer that has not
        answered.

    Raises:
        ValueError: If `timeout` is not positive.
        tf.errors.FailedPreconditionError: If the peer cannot start, or has been shut down.

    Example:

    ```python
    edges = kf.ops.global_minimum_spanning_tree(kf.ops.get_peer_latencies())
    ```
    """
    if not timeout > 0:
        raise ValueError(f"get_peer_latencies: timeout must be positive, not {timeout}")
    kernels.check_graph("get_peer_latencies")
    return kernels.library().kungfu_peer_latencies(timeout=timeout, name=name)


@kernels.operation
def monitored_all_reduce(
    tensor: Any,
    *,
    tree: Any = None,
    op: str = "sum",
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """`all_reduce` that counts towards the throughput of the current strategy.

    Use it for large tensors, whose time depends on the network: `calc_stats` and
    `check_interference` consider nothing else.

    Args:
        tensor: As for `all_reduce`.
        tree: As for `set_tree`, for this tensor alone. Default: the current strategy.
        op: As for `all_reduce`.
        name: The same on every peer; default by the place in the program.
        group: As for `all_reduce`. Ranks and size of `tree` are those of the group.

    Returns:
        As `all_reduce`.

    Raises:
        InvalidArgumentError: As `all_reduce`, like the rest.
        UnsupportedTypeError: If `op` is not defined for the dtype.
        tf.errors.InvalidArgumentError: If dtype, shape or `op` differ between peers.

    Example:

    ```python
    gradient = kf.ops.monitored_all_reduce(gradient, op="mean")
    ```
    """
    tag = naming.make_tag("monitored_all_reduce", name)
    monitored = naming.monitored(tag)
    if tree is None:
        return collective.all_reduce(tensor, op=op, name=monitored, group=group)
    return strategy.subset_all_reduce(tensor, tree, op=op, name=monitored, group=group)


@kernels.operation
def calc_stats(*, name: str | None = None) -> Any:
    """Returns the throughput of the strategy in use since this was called last, here or as
    `kungfu_tf.calc_stats`.

    The throughput is over `monitored_all_reduce` and optimizers with `monitor=True`: the bytes of
    this peer, divided by the time in which there were such operations.

    Args:
        name: The name of the graph's operation.

    Returns:
        A float32 scalar, in bytes per second. If there was no such operation since the last call,
        the last known throughput; 0 before the first.

    Example:

    ```python
    throughput = kf.ops.calc_stats()
    ```
    """
    kernels.check_graph("calc_stats")
    return kernels.library().kungfu_calc_stats(name=name)
