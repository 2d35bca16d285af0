"""How much each peer's gradients count in a step: as much as its batch has samples.

With n samples on this peer and N on all `size` of them, the mean over samples is the plain mean
over peers of `weight · g`:

```
weight = n · size / N               # 0 where nobody has samples
Σ n·g / N = mean over peers of weight · g
```

If all batches have one size every weight is 1. Then gradients are not touched, and the result has
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
    """The weight of this peer among all, a float64 scalar.

    Costs one all-reduce of 8 bytes. The sum is one of integers: exact, and equal weights are 1.0.

    Args:
        samples: An integer scalar, how many samples the batch of this peer has.
    """
    return _weight_among(samples, total_of(samples))


def total_of(samples: Any) -> Any:
    """How many samples the batches of all peers have, an int64 scalar."""
    mine = tf.cast(samples, tf.int64)
    return mine if peer.is_single_process() else ops.all_reduce(mine, op="sum", name="samples")


def _weight_among(samples: Any, total: Any) -> Any:
    mine = tf.cast(samples, tf.int64)
    share = tf.cast(mine * tf.cast(ops.cluster_size(), tf.int64), tf.float64)
    return tf.math.divide_no_nan(share, tf.cast(total, tf.float64))


@contextlib.contextmanager
def samples(count: Any, total_of: Callable[[Any], Any] = total_of) -> Iterator[Any]:
    """Within it gradients are averaged over the samples of all peers' batches.

    Entered around a train step, where it is traced or run eagerly, on all peers. The peers' total
    is asked for once, however many optimizers the step has. In a process that is alone they
    stay as they are.

    A `tf.function` that is called within must not have been traced outside: its operations are
    fixed.

    Args:
        count: An integer scalar tensor; 0 if this peer has run out of batches.
        total_of: Asks for the total.

    Yields:
        How many samples the batches of all peers have.
    """
    total = total_of(count)
    if peer.is_single_process():
        yield total
        return
    with within(_weight_among(count, total)):
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
    """Within it peers count alike: for what `weighted` has returned already."""
    return context.within(weight=None)


def current() -> Any:
    """The weight of the step that is being traced or run; None: it counts no samples."""
    weight = context.current().weight
    if weight is None or tf.executing_eagerly():
        return weight
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "is_control_flow_graph", False):
        graph = graph.outer_graph
    # A function that the step calls is traced once. It would hold on to the weight of that call.
    return weight if getattr(weight, "graph", None) is graph else _shared().read_value()


def weighted(gradients: Sequence[Any], weight: Any) -> list[Any]:
    """The gradients times the weight; where it is 1, themselves.

    Times 0 all is 0, also the NaN that the mean over an empty batch is.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        weight: Of this peer, from `weight_of` or `current`; None is as 1.
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
    """This peer's own gradients; zeros in a step for which it has no samples and others have.

    In a TF1 graph they run where this is called, within its dependencies.
    """
    weight = current()
    if weight is not None:
        return weighted(gradients, tf.where(weight > 0, tf.ones_like(weight), 0.0))
    if tf.compat.v1.executing_eagerly_outside_functions():
        return list(gradients)
    return [None if g is None else with_values(g, tf.identity(values_of(g))) for g in gradients]


def _times(value: Any, weight: Any) -> Any:
    # A weight of half precision would be rounded before it is used.
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
    """Holds the weight of the step that runs, for functions that it calls; 1 between steps."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="kungfu_weight")
