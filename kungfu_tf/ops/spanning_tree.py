"""Plans who talks to whom. From the same measurements all peers make the same plan."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.context import graph_state
from kungfu_tf.ops import collective, kernels, topology


@kernels.operation
def global_minimum_spanning_tree(weights: Any, *, name: str | None = None) -> Any:
    """Returns the tree of all peers with the least total weight.

    Prim's algorithm, from rank 0: of the edges that lead out of the tree it adds the lightest, and
    among equals the one between the lowest ranks. The weight of an edge is the mean of both
    directions; a weight that is not finite counts as the largest.

    Args:
        weights: The cost of reaching each rank, for instance `get_peer_latencies()`. [size]: this
            peer's costs, which are gathered from all peers. [size, size]: the costs of all peers,
            the same on all of them; nothing is exchanged.
        name: The same on every peer; default by the place in the program.

    Returns:
        int32[size − 1, 2]: the edges in the order they were added, each from a rank in the tree to
            a new one.

    Raises:
        InvalidArgumentError: If `weights` is neither a vector nor a square matrix.

    Example:

    ```python
    edges = kf.ops.global_minimum_spanning_tree(kf.ops.get_peer_latencies())
    ```
    """
    rows = tf.cast(weights, tf.float64)
    if rows.shape.rank == 1:
        rows = collective.all_gather(rows, name=name or "global_minimum_spanning_tree")
    elif rows.shape.rank != 2 or not rows.shape[0:1].is_compatible_with(rows.shape[1:2]):
        raise errors.InvalidArgumentError(
            f"global_minimum_spanning_tree: weights of shape {rows.shape}, not [size] or "
            "[size, size]"
        )
    return _prim((rows + tf.transpose(rows)) / 2)


def _prim(weights: Any) -> Any:
    size = tf.shape(weights)[0]
    most = tf.fill(tf.shape(weights), weights.dtype.max / 2)
    weights = tf.where(tf.math.is_finite(weights), tf.minimum(weights, most), most)

    def add(count: Any, inside: Any, edges: Any) -> tuple[Any, Any, Any]:
        leads_out = inside[:, None] & ~inside[None, :]
        candidates = tf.where(leads_out, weights, tf.fill(tf.shape(weights), weights.dtype.max))
        place = tf.argmin(tf.reshape(candidates, [-1]), output_type=tf.int32)
        edge = tf.stack([place // size, place % size])
        inside = inside | tf.equal(tf.range(size), edge[1])
        return count + 1, inside, tf.concat([edges, edge[None]], axis=0)

    _, _, edges = tf.while_loop(
        lambda count, inside, edges: count < size,
        add,
        (tf.constant(1), tf.equal(tf.range(size), 0), tf.zeros([0, 2], tf.int32)),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None]),
            tf.TensorShape([None, 2]),
        ),
    )
    return edges


@kernels.operation
def get_neighbour_mask(edges: Any, *, name: str | None = None) -> Any:
    """Tells which peers are this one's neighbours in a tree.

    Args:
        edges: int[size − 1, 2], as from `global_minimum_spanning_tree`.
        name: The name of the graph's operation.

    Returns:
        bool[size], true for the ranks that share an edge with this one.

    Example:

    ```python
    mask = kf.ops.get_neighbour_mask(edges)
    ```
    """
    edges = tf.cast(edges, tf.int32)
    me, size = topology.peer_info()
    others = tf.where(tf.equal(edges, me), tf.reverse(edges, axis=[1]), -1)
    ranks = tf.range(size)
    return tf.reduce_any(tf.equal(tf.reshape(others, [-1, 1]), ranks[None, :]), axis=0, name=name)


@kernels.operation
def round_robin(mask: Any, *, name: str | None = None) -> Any:
    """Returns, whenever it runs, the next index that a mask selects, in turn.

    Args:
        mask: bool[n].
        name: Calls of one name take turns together. Without a name all eager calls do, and each
            call in a graph is on its own.

    Returns:
        An int32 scalar: the next selected index after the previous one, then the lowest again; −1
        if the mask selects none.

    Example:

    ```python
    target = kf.ops.round_robin(kf.ops.get_neighbour_mask(edges))
    ```
    """
    mask = tf.cast(mask, tf.bool)
    last = graph_state.of_call(
        "round_robin", name, lambda: graph_state.variable(-1, tf.int64, "round_robin")
    )
    indices = tf.range(tf.size(mask, out_type=tf.int64))
    # The lowest behind the last one; if there is none, the lowest.
    order = tf.where(indices > last, indices, indices + tf.size(mask, out_type=tf.int64))
    least = tf.reduce_min(tf.where(mask, order, tf.int64.max))
    found = tf.reduce_any(mask)
    chosen = tf.where(found, least % tf.maximum(tf.size(mask, out_type=tf.int64), 1), -1)
    kept = last.assign(tf.where(found, chosen, tf.convert_to_tensor(last)))
    with tf.control_dependencies([tf.convert_to_tensor(kept)]):
        return tf.cast(chosen, tf.int32)
