"""The gradient noise scale: how much the samples of a batch disagree on the direction.

Sam McCandlish et al., An Empirical Model of Large-Batch Training, 2018, appendix A.1.
"""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.context import graph_state
from kungfu_tf.ops import kernels, norms
from kungfu_tf.ops.smoothing import check_alpha

_log = logging.getLogger(__name__)


@kernels.operation
def global_noise_scale(
    batch_small: Any,
    batch_big: Any,
    tensor: Any,
    avg_tensor: Any,
    *,
    alpha: float = 0.6,
    name: str | None = None,
) -> Any:
    """Estimates the gradient noise scale: the batch size beyond which a larger one hardly helps.

    It is tr(Σ) / |G|², where G is the true gradient and Σ the covariance of the gradients of single
    samples. Both get unbiased estimates from the gradients of a small and of a big batch. They are
    smoothed before the division, because a mean of quotients would be biased:

    ```
    S  = (|g_small|² − |g_big|²) / (1/b_small − 1/b_big)
    G² = (b_big·|g_big|² − b_small·|g_small|²) / (b_big − b_small)
    S̄  ← α·S̄  + (1 − α)·S           # both begin with 0
    Ḡ² ← α·Ḡ² + (1 − α)·G²
    return S̄ / Ḡ²                   # ∞ as long as no direction stands out of the noise
    ```

    If the small batch is one peer's and the big one all peers', each peer has its own estimate.
    `MonitorGradientNoiseScaleOptimizer` makes one estimate from all peers' gradients, which is the
    same on all peers and less noisy. Values that are not finite are left out.

    Args:
        batch_small: The number of samples that `tensor` is the mean gradient of; a number or a
            scalar.
        batch_big: The same for `avg_tensor`.
        tensor: The gradient of the small batch: a tensor, or a list of tensors.
        avg_tensor: That of the big one.
        alpha: The weight of the past, 0 ≤ α < 1. A larger one is smoother and slower.
        name: Calls of one name are one estimate. Without a name all eager calls are one, and each
            call in a graph is its own.

    Returns:
        A float32 scalar, in samples. It is NaN until a big batch was bigger than the small one.
        With one peer it stays NaN, and a warning is logged.

    Raises:
        ValueError: If `alpha` is out of range.

    Example:

    ```python
    mean = kf.ops.all_reduce(gradient, op="mean")
    scale = kf.ops.global_noise_scale(32, 32 * kf.ops.cluster_size(), gradient, mean)
    ```
    """
    check_alpha(alpha, "global_noise_scale")
    sizes = [tf.cast(size, tf.float64) for size in (batch_small, batch_big)]
    known = [tf.get_static_value(size) for size in sizes]
    if known[0] == known[1] and (known[1] is not None or peer.is_single_process()):
        warn_alone("global_noise_scale")
    small, big = (norms.squared_norm(tf.nest.flatten(t)) for t in (tensor, avg_tensor))
    smoothed = graph_state.of_call("global_noise_scale", name, make_state)
    return update(smoothed, small, big, *sizes, alpha=alpha)


def warn_alone(what: str) -> None:
    """Warns, once in a process, that one peer alone cannot measure noise."""
    if not _warned:
        _warned.append(what)
        _log.warning("%s: nothing can be measured with one peer, whose batch is all there is", what)


_warned: list[str] = []


def make_state() -> Any:
    """The state of `update`: S̄, Ḡ², and the total weight of the measurements in them."""
    return graph_state.variable([0.0, 0.0, 0.0], tf.float64, "noise_scale/smoothed")


def update(smoothed: Any, small: Any, big: Any, b_small: Any, b_big: Any, *, alpha: float) -> Any:
    """Adds a measurement, if it is finite, and returns the noise scale.

    Args:
        smoothed: From `make_state`.
        small: |g_small|², a float64 scalar.
        big: |g_big|².
        b_small: The size of the small batch, a float64 scalar.
        b_big: The size of the big batch.
        alpha: The weight of the past.
    """
    noise = (small - big) / (1 / b_small - 1 / b_big)
    signal = (b_big * big - b_small * small) / (b_big - b_small)
    new = tf.stack([noise, signal, tf.ones_like(noise)])
    past = tf.convert_to_tensor(smoothed)
    mixed = tf.where(tf.reduce_all(tf.math.is_finite(new)), alpha * past + (1 - alpha) * new, past)
    noise, signal, weight = tf.unstack(tf.convert_to_tensor(smoothed.assign(mixed)))
    noise = tf.where(weight > 0, tf.maximum(noise, 0.0), float("nan"))
    without_signal = tf.where(noise > 0, tf.constant(float("inf"), tf.float64), noise)
    ratio = noise / tf.where(signal > 0, signal, tf.ones_like(signal))
    return tf.cast(tf.where(signal > 0, ratio, without_signal), tf.float32)
