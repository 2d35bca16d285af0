"""Mean and variance over the samples of all peers: one all-reduce forward, one backward.

Each peer sums over its own samples, and what travels are count n, sum Σx and sum of squares Σx²:

```
mean = Σx / n
variance = Σx² / n - mean²
```

In float32 the second line is useless where the mean is large: it is the difference of two numbers
of which hardly a digit differs. So the squares are summed as (x - shift)², with this peer's own
mean for a shift, as a single process does it. Only these sums, one number per channel, are added
over the peers, in float64. The loss in its 53 bits, 1e-16 · mean² / variance, is less than the
earlier loss by rounding samples to float32. Sums need one exchange, where first the mean and then
the squared deviations would need two.

The gradient is the one of these lines. It sums one number per channel for the mean and one for the
variance over the peers, again in one exchange. Any shift gives the same result. So the shift is a
constant in the gradient, and gradients of gradients are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.ops import kernels, naming
from kungfu_tf.replicas import sample_weights


@kernels.operation
def moments(
    x: Any, axes: Sequence[int], *, mask: Any = None, epsilon: float = 0.0
) -> tuple[Any, Any]:
    """Returns mean and variance over `axes` and over all peers, bitwise equal on all of them.

    Peers count by their samples: their shapes may differ in the axes that are reduced, and may have
    no elements. If no peer has any, both are 0.

    Differentiable. Within `sample_weights.samples` the gradients of the peers' losses are weighted
    as the
    gradients of the variables will be.

    Args:
        x: A tensor of float32 or float64.
        axes: The axes to reduce; they are kept with length 1.
        mask: Which elements count, boolean, of the shape of `x`; None: all.
        epsilon: Added to the number of elements, as Keras 3 does it with a mask.
    """
    sums = _own_sums(x, axes, mask)
    own = sample_weights.current()
    if own is not None:  # of weight 0 is what stands in for an empty batch
        sums = tf.where(own > 0, sums, tf.zeros_like(sums))
    count, total, squares = tf.unstack(_sum_over_peers(sums))
    divisor = count + epsilon
    mean = tf.math.divide_no_nan(total, divisor)
    deviations = squares - mean * (2 * total - count * mean)
    variance = tf.maximum(tf.math.divide_no_nan(deviations, divisor), 0)
    return tf.cast(mean, x.dtype), tf.cast(variance, x.dtype)


def _own_sums(x: Any, axes: Sequence[int], mask: Any) -> Any:
    """Count, sum and sum of squares of this peer, stacked, in float64."""

    def total_of(values: Any) -> Any:
        return tf.reduce_sum(values, axes, keepdims=True)

    total = total_of(x if mask is None else tf.where(mask, x, 0))
    if mask is None:
        count = tf.size(x, tf.int64) // tf.size(total, tf.int64)
    else:
        count = total_of(tf.cast(mask, tf.int64))
    mean = tf.math.divide_no_nan(total, tf.cast(count, x.dtype))
    shift = tf.stop_gradient(mean)
    squares = total_of(
        tf.math.squared_difference(x if mask is None else tf.where(mask, x, shift), shift)
    )
    count, total, squares, shift = (tf.cast(v, tf.float64) for v in (count, total, squares, shift))
    squares += shift * (2 * total - count * shift)
    return tf.stack([tf.broadcast_to(count, tf.shape(total)), total, squares])


@tf.custom_gradient
def _sum_over_peers(sums: Any) -> tuple[Any, Any]:
    # Peer p's samples are in the losses of all peers. Its gradient will count w(p) times, and the
    # one of peer q's loss must count w(q) times. So w(q) · gradient travels, and w(p) is divided
    # out.
    def gradient(upstream: Any) -> Any:
        own = sample_weights.current()
        if own is None:
            return _all_reduce(upstream, "batch_norm_gradient")
        mine = tf.math.multiply_no_nan(upstream, own)
        return tf.math.divide_no_nan(_all_reduce(mine, "batch_norm_gradient"), own)

    return _all_reduce(sums, "batch_norm"), gradient


def _all_reduce(sums: Any, what: str) -> Any:
    return kernels.run("kungfu_all_reduce", sums, op="sum", tag=naming.make_tag(what, None))
