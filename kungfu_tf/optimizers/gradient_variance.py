"""Synchronous SGD that publishes the variance of the gradients over the peers."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.optimizers.monitored import MonitoredSGD, refuse_codec

Optimizer = TypeVar("Optimizer")


class GradientVariance(MonitoredSGD):
    """Mean |g|² − |mean g|²."""

    def __init__(self, interval: int) -> None:
        super().__init__("gradient_variance", interval)

    def measure(self, own: Any, mean: Any) -> Any:
        """The variance of this step."""
        return tf.cast(tf.maximum(own - mean, 0.0), tf.float32)


def MonitorGradientVarianceOptimizer(  # noqa: N802 (the name that KungFu has)
    optimizer: Optimizer,
    *,
    monitor_interval: int = 1,
    group: Group | None = None,
    compression: None = None,
) -> Optimizer:
    """Synchronous SGD that also measures how much the peers' gradients differ.

    ```
    ḡ = mean over peers of g                  # what is applied, as SynchronousSGDOptimizer does
    variance = mean over peers of |g − ḡ|²    # all gradients taken together as one vector
    ```

    Every peer has the same value. The gradients are measured while they are exchanged and still in
    the caches. `MonitorCallback` puts it into Keras' `logs` as "gradient_variance"; elsewhere, read
    the variable `optimizer.kungfu_algorithm.metrics["gradient_variance"]`, which is NaN until
    something was measured. With one peer nothing is measured, and a warning says so. Steps in which
    the peers' batches differ in size, or gradients are not finite, are left out.

    In a training loop of your own, send newcomers `optimizer.kungfu_algorithm.variables` from rank
    0, along with all other variables.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`.
        monitor_interval: How often it is measured, in updates.
        group: As for `SynchronousSGDOptimizer`.
        compression: None: codecs are refused, since what they leave would be measured.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, or `monitor_interval` is not an integer.
        ValueError: If it is wrapped already, `monitor_interval` is not positive, or there is a
            codec.

    Example:

    ```python
    optimizer = kf.optimizers.MonitorGradientVarianceOptimizer(keras.optimizers.SGD(0.1))
    ```
    """
    refuse_codec("MonitorGradientVarianceOptimizer", compression)
    make = functools.partial(GradientVariance, monitor_interval)
    make()  # checks the arguments now
    return wrap(optimizer, make, group=group)
