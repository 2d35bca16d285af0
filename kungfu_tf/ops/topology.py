"""Ranks and sizes, read at run time: they are right even after the peers have changed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import context, peer
from kungfu_tf.ops import kernels


@kernels.operation
def rank(*, name: str | None = None) -> Any:
    """Returns this peer's rank, read whenever the graph runs.

    Args:
        name: The name of the graph's operation.

    Returns:
        An int32 scalar, 0 to size − 1.

    Raises:
        tf.errors.FailedPreconditionError: If the peer cannot start, or has been shut down.

    Example:

    ```python
    is_mine = owner == kf.ops.rank()
    ```
    """
    kernels.check_graph("rank")
    if peer.pretends_alone():
        return tf.constant(0)
    group = context.current().group
    if group is not None:
        return tf.constant(group.rank(), name=name)
    return kernels.library().kungfu_rank(name=name)


@kernels.operation
def cluster_size(*, name: str | None = None) -> Any:
    """Returns the number of peers, read whenever the graph runs.

    Args:
        name: The name of the graph's operation.

    Returns:
        An int32 scalar, at least 1.

    Raises:
        tf.errors.FailedPreconditionError: If the peer cannot start, or has been shut down.

    Example:

    ```python
    share = total // kf.ops.cluster_size()
    ```
    """
    return _size("kungfu_cluster_size", name)


@kernels.operation
def agreed_size() -> Any:
    """`peer.agreed_size`, read whenever the graph runs, as `cluster_size` is."""
    return _size("kungfu_agreed_size", None)


def _size(kernel: str, name: str | None) -> Any:
    kernels.check_graph(kernel.removeprefix("kungfu_"))
    if peer.pretends_alone():
        return tf.constant(1)
    group = context.current().group
    if group is not None:
        return tf.constant(group.size(), name=name)
    return getattr(kernels.library(), kernel)(name=name)


@kernels.operation
def peer_info(*, name: str | None = None) -> tuple[Any, Any]:
    """Returns `rank()` and `cluster_size()` in one operation.

    Args:
        name: The name of the graph's operation.

    Returns:
        Two int32 scalars: rank and size.

    Raises:
        tf.errors.FailedPreconditionError: If the peer cannot start, or has been shut down.

    Example:

    ```python
    rank, size = kf.ops.peer_info()
    ```
    """
    kernels.check_graph("peer_info")
    if peer.pretends_alone():
        return tf.constant(0), tf.constant(1)
    group = context.current().group
    if group is not None:
        return tf.constant(group.rank()), tf.constant(group.size())
    info = kernels.library().kungfu_peer_info(name=name)
    return info.rank, info.size
