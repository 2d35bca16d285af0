"""Weighs each peer's gradients by the number of samples in its batch.

With n samples on this peer, and N on all `size` peers, the mean over samples is the plain mean over
peers of `weight · g`:

```
weight = n · size / N               # 0 where nobody has samples
Σ n·g / N = mean over peers of weight · g
```

If all batches have one size, every weight is 1. Then gradients stay as they are, and the result has
the bits of the plain mean.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import context, ops, peer
from kungfu_tf.ops.gradient_values import values_of, with_values


def weight_of(samples: Any) -> Any:
    """The weight of this peer, a float64 scalar.

    It costs one all-reduce of 16 bytes. The sum is one of integers and exact, so equal weights are
    1.0.

    Args:
        samples: How many samples the batch of this peer has, an integer scalar.
    """
    return _weight_among(samples, *total_of(samples))


def total_of(samples: Any) -> tuple[Any, Any]:
    """How many samples the batches of all peers have, and how many peers these are.

    Both are int64 scalars. They come of one exchange, so a lost peer is in both or in none.
    """
    mine = tf.cast(samples, tf.int64)
    if peer.is_single_process():
        return mine, tf.constant(1, tf.int64)
    sums = ops.all_reduce(tf.stack([mine, 1]), op="sum", name="samples")
    return sums[0], sums[1]


def own_total(samples: Any) -> tuple[Any, Any]:
    """In place of `total_of`: asks no peer. A peer with samples has the weight 1 then."""
    peers = tf.cast(ops.cluster_size(), tf.int64)
    return tf.cast(samples, tf.int64) * peers, peers


def _weight_among(samples: Any, total: Any, peers: Any) -> Any:
    share = tf.cast(tf.cast(samples, tf.int64) * peers, tf.float64)
    return tf.math.divide_no_nan(share, tf.cast(total, tf.float64))


@contextlib.contextmanager
def samples(count: Any, total_of: Callable[[Any], tuple[Any, Any]] = total_of) -> Iterator[Any]:
    """Within it gradients are averaged over the samples of all peers' batches.

    All peers enter it around a train step, where that is traced or run eagerly. The peers add up
    their samples once, however many optimizers the step has. In a single process nothing changes.

    A `tf.function` that is called within must not have been traced outside, because its operations
    are fixed then.

    Args:
        count: How many samples the batch of this peer has, an integer scalar tensor; 0 if it has
            run out of batches.
        total_of: Returns the total of all peers, and how many these are.

    Yields:
        How many samples the batches of all peers have.
    """
    total, peers = total_of(count)
    if peer.is_single_process():
        yield total
        return
    with (
        within(_weight_among(count, total, peers)),
        context.within(samples=tf.cast(count, tf.float64)),
    ):
        yield total


@contextlib.contextmanager
def within(weight: Any) -> Iterator[None]:
    """Within it this is the weight of this peer, from `weight_of`."""
    before = context.current().weight
    with context.within(weight=weight):
        _share(weight)
        try:
            yield
        finally:
            _share(before)


def unweighted() -> contextlib.AbstractContextManager[None]:
    """Within it peers count alike. It is for gradients that `weighted` has returned."""
    return context.within(weight=None)


def current() -> Any:
    """The weight in the step that is traced or run; None if it counts no samples."""
    weight = context.current().weight
    # A function that the step calls is traced once, and would keep the weight of its first call.
    return weight if weight is None or _is_of_this_step(weight) else _shared().read_value()


def samples_of_step() -> Any:
    """How many samples this peer has in the step, a float64 scalar; 1 if they are not counted."""
    weight, samples = current(), context.current().samples
    if weight is None:
        return tf.constant(1.0, tf.float64)
    return tf.convert_to_tensor(
        weight if samples is None or not _is_of_this_step(samples) else samples
    )


def _is_of_this_step(tensor: Any) -> bool:
    """Whether a tensor was computed in the function that is traced, or eagerly as the step is."""
    if tf.executing_eagerly():
        return True
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "is_control_flow_graph", False):
        graph = graph.outer_graph
    return getattr(tensor, "graph", None) is graph


def weighted(gradients: Sequence[Any], weight: Any) -> list[Any]:
    """The gradients times the weight; with the weight 1, the gradients themselves.

    The weight 0 makes zeros also of NaN, which is the mean over an empty batch.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        weight: This peer's weight, from `weight_of` or `current`; None stands for 1.
    """
    given = [i for i, g in enumerate(gradients) if g is not None]
    result = list(gradients)
    if weight is None or not given:
        return result
    values = [values_of(gradients[i]) for i in given]
    values = tf.cond(
        tf.equal(weight, 1.0), lambda: values, lambda: [_times(v, weight) for v in values]
    )
    for i, value in zip(given, values, strict=True):
        result[i] = with_values(gradients[i], value)
    return result


def of_samples(gradients: Sequence[Any]) -> list[Any]:
    """This peer's own gradients; zeros if it has no samples in this step and others have.

    In a TF1 graph they depend on what the caller's context depends on.
    """
    weight = current()
    if weight is not None:
        return weighted(gradients, tf.where(weight > 0, tf.ones_like(weight), 0.0))
    if tf.compat.v1.executing_eagerly_outside_functions():
        return list(gradients)
    return [None if g is None else with_values(g, tf.identity(values_of(g))) for g in gradients]


def _times(value: Any, weight: Any) -> Any:
    # In half precision the weight would be rounded.
    wide = tf.float32 if value.dtype in (tf.float16, tf.bfloat16) else value.dtype
    return tf.cast(
        tf.math.multiply_no_nan(tf.cast(value, wide), tf.cast(weight, wide)), value.dtype
    )


def _share(weight: Any) -> None:
    # In a TF1 graph nothing orders an assignment and what reads it.
    if tf.compat.v1.executing_eagerly_outside_functions():
        _shared().assign(1.0 if weight is None else weight)


@functools.cache
def _shared() -> Any:
    """The variable with the weight of the running step, for functions that it calls; else 1."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="kungfu_weight")
