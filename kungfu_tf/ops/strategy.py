"""The graphs along which data travel: for all that follows, or for one reduction.

`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import kernels, naming, tensors
from kungfu_tf.upstream.graph import needs_input


@kernels.operation
def set_strategy(strategy: Any, *, name: str | None = None) -> Any:
    """Switches to another strategy: all peers at the same step, or none of them.

    All peers call it, and wait for each other. The change makes pending operations fail, so in a
    graph it waits for operations that were added before it, as `resize` does, and later operations
    must depend on it by `tf.control_dependencies`. It empties all queues.

    Args:
        strategy: Its name, as `kungfu-run -help` lists them; a Python string or a string scalar.
        name: The name of the graph's operation.

    Returns:
        The operation, in a graph; None in eager code.

    Raises:
        tf.errors.InvalidArgumentError: If there is no such strategy, or the peers want different
            ones. Then nothing has changed.
        tf.errors.DeadlineExceededError: If a peer did not call it in time.
        tf.errors.UnavailableError: If a peer is gone.

    Example:

    ```python
    kf.calc_stats()
    if kf.check_interference():
        kf.ops.set_strategy("BINARY_TREE")
    ```
    """
    with after_what_is_pending("set_strategy"):
        return kernels.library().kungfu_set_strategy(strategy, name=name)


@kernels.operation
def set_tree(tree: Any, *, name: str | None = None) -> Any:
    """Switches to one tree of all peers, as `set_strategy` does to a strategy.

    It holds until another tree or strategy is set, or the peers change.

    Args:
        tree: int32[size], the parent of each rank; the root is its own parent. All data go up the
            tree and down again.
        name: The name of the graph's operation.

    Returns:
        The operation, in a graph; None in eager code.

    Raises:
        tf.errors.InvalidArgumentError: If it is not a tree of all ranks, or the peers want
        different
            ones. Then nothing has changed.
        tf.errors.DeadlineExceededError: If a peer did not call it in time.
        tf.errors.UnavailableError: If a peer is gone.

    Example:

    ```python
    edges = kf.ops.global_minimum_spanning_tree(kf.ops.get_peer_latencies())
    kf.ops.set_tree(kf.ops.parents(edges))
    ```
    """
    with after_what_is_pending("set_tree"):
        return kernels.library().kungfu_set_tree(tf.cast(tree, tf.int32), name=name)


@kernels.operation
def parents(edges: Any, *, name: str | None = None) -> Any:
    """Returns the parent of each rank in a tree, given its edges.

    Args:
        edges: int32[size − 1, 2], as `global_minimum_spanning_tree` returns them: the end nearer to
            the root, which is rank 0, comes first.
        name: The name of the graph's operation.

    Returns:
        int32[size], for `set_tree` and `subset_all_reduce`.

    Example:

    ```python
    tree = kf.ops.parents([[0, 2], [2, 1]])  # [0, 2, 0]
    ```
    """
    pairs = tf.reshape(tf.cast(edges, tf.int32), [-1, 2])
    size = tf.shape(pairs)[0] + 1
    return tf.scatter_nd(pairs[:, 1:], pairs[:, 0], [size], name=name)


@kernels.operation
def subset_all_reduce(
    tensor: Any,
    topology: Any,
    *,
    op: str = "sum",
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Reduces a tensor over subsets of the peers, each a tree whose peers get the result.

    Differentiable for sum and mean.

    Args:
        tensor: A tensor, of the same dtype and shape on all peers.
        topology: int32[size], the same on all peers: the parent of each rank; the root of a tree is
            its own parent. Each tree reduces separately; a mean is over the peers of the tree.
        op: As for `all_reduce`.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all. Ranks and
            size of `topology` are those of the group.

    Returns:
        A tensor of the same shape.

    Raises:
        InvalidArgumentError: If there is no such `op`.
        UnsupportedTypeError: If `op` is not defined for the dtype.
        tf.errors.InvalidArgumentError: If `topology` is not a forest of all ranks; or if it, dtype,
            shape or `op` differ between the peers of a tree.

    Example:

    ```python
    # Ranks 0 and 1, and ranks 2 and 3.
    pairs = kf.ops.subset_all_reduce(x, [0, 0, 2, 2], op="mean")
    ```
    """
    with groups.among(group):
        what = naming.title("subset_all_reduce", name)
        x = tensors.to_tensor(tensor, what)
        tensors.check_reduction(x, op, what, tensor)
        tag = naming.make_tag("subset_all_reduce", name)
        trees = tf.cast(topology, tf.int32)
        return kernels.run("kungfu_subset_all_reduce", x, trees, op=op, tag=tag)


def after_what_is_pending(what: str) -> Any:
    """Makes what follows wait for the operations of the graph so far that may still be running.

    A TF1 graph also has the operations of its training steps. They are left out, since they do not
    belong to this run: they read a batch, or a value that their run is given.
    """
    kernels.check_graph(what)
    if tf.executing_eagerly():
        return tf.control_dependencies(None)
    graph = tf.compat.v1.get_default_graph()
    context = graph._get_control_flow_context()
    is_plain = not graph.building_function
    return tf.control_dependencies(
        [
            one
            for one in graph.get_operations()
            if one.type.startswith("Kungfu") or one.type.endswith("PartitionedCall")
            if one._get_control_flow_context() is context
            if not (is_plain and needs_input(one))
        ]
    )
