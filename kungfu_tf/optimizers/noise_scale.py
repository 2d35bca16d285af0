"""Synchronous SGD that publishes the gradient noise scale."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf.context import batch_factor, graph_state
from kungfu_tf.exchange.number_of_peers import number_of_peers
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.ops import noise_scale
from kungfu_tf.ops.smoothing import check_alpha
from kungfu_tf.optimizers.monitored import MonitoredSGD, refuse_codec

Optimizer = TypeVar("Optimizer")


class GradientNoiseScale(MonitoredSGD):
    """The noise scale, from the gradients of one peer's batch and those of all peers' batches."""

    def __init__(self, device_batch_size: int, interval: int, alpha: float) -> None:
        super().__init__("noise_scale", interval)
        self.device_batch_size = device_batch_size
        self.alpha = alpha
        self._smoothed = graph_state.State(noise_scale.make_state)

    @property
    def variables(self) -> Sequence[Any]:
        """Includes the smoothed values."""
        return [*super().variables, self._smoothed.get()]

    def measure(self, own: Any, mean: Any) -> Any:
        """The smoothed noise scale after this step."""
        small = tf.cast(self.device_batch_size, tf.float64) * batch_factor.factor.get()
        peers = number_of_peers([own, mean], name=f"{self.exchange}/peers")
        big = small * tf.cast(peers, tf.float64)
        smoothed = self._smoothed.get()
        return noise_scale.update(smoothed, own, mean, small, big, alpha=self.alpha)


def MonitorGradientNoiseScaleOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer,
    device_batch_size: int,
    *,
    monitor_interval: int = 1,
    alpha: float = 0.9,
    group: Group | None = None,
    compression: None = None,
) -> Optimizer:
    """Synchronous SGD that also measures the gradient noise scale (McCandlish et al., 2018).

    It is tr(Σ) / |G|², in samples: the batch size beyond which a larger batch hardly makes better
    steps. G is the true gradient, Σ the covariance of the gradients of single samples.

    ```
    b = device_batch_size, B = b · peers
    ḡ  = mean over peers of g                 # what is applied, as SynchronousSGDOptimizer does
    S  = (mean over peers of |g|² − |ḡ|²) / (1/b − 1/B)
    G² = (B·|ḡ|² − b·mean over peers of |g|²) / (B − b)
    S̄  ← α·S̄  + (1 − α)·S                    # both begin with 0
    Ḡ² ← α·Ḡ² + (1 − α)·G²
    noise scale = S̄ / Ḡ²                     # ∞ as long as no direction stands out of the noise
    ```

    Every peer has the same value. The gradients are measured while they are exchanged and still in
    the caches. `MonitorCallback` puts it into Keras' `logs` as "noise_scale"; elsewhere, read the
    variable `optimizer.kungfu_algorithm.metrics["noise_scale"]`, which is NaN until something was
    measured. With one peer nothing is measured, and a warning says so. Steps in which the peers'
    batches differ in size, or gradients are not finite, are left out.

    In a training loop of your own, send newcomers `optimizer.kungfu_algorithm.variables` from rank
    0, along with all other variables.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`.
        device_batch_size: The samples of one update on this peer: its batch size, times the steps
            of an update if gradients are accumulated. If a policy changes it, the initial one.
        monitor_interval: How often it is measured, in updates.
        alpha: The weight of the past, 0 ≤ α < 1.
        group: As for `SynchronousSGDOptimizer`.
        compression: None: codecs are refused, since what they leave would be measured.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or an argument is not a number.
        ValueError: If it is wrapped already, an argument is out of range, or there is a codec.

    Example:

    ```python
    optimizer = kf.optimizers.MonitorGradientNoiseScaleOptimizer(keras.optimizers.SGD(0.1), 32)
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(dataset, callbacks=[kf.callbacks.MonitorCallback()])
    ```
    """
    refuse_codec("MonitorGradientNoiseScaleOptimizer", compression)
    if not isinstance(device_batch_size, int):
        raise TypeError(f"device_batch_size is a number of samples, not {device_batch_size!r}")
    if device_batch_size <= 0:
        raise ValueError(f"device_batch_size must be positive, not {device_batch_size}")
    check_alpha(alpha, "MonitorGradientNoiseScaleOptimizer")
    make = functools.partial(GradientNoiseScale, device_batch_size, monitor_interval, alpha)
    make()  # checks the arguments now
    return wrap(optimizer, make, group=group)
