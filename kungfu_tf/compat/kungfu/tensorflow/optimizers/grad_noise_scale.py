"""Synchronous SGD that measures the gradient noise scale."""

from __future__ import annotations

from typing import Any

from kungfu.tensorflow.optimizers._made import made

import kungfu_tf as kf

__all__ = ["MonitorGradientNoiseScaleOptimizer"]


def MonitorGradientNoiseScaleOptimizer(  # noqa: N802 (KungFu's)
    optimizer: Any,
    device_batch_size: int,
    monitor_interval: int = 1,
    name: str | None = None,
    use_locking: bool = False,
    **kwargs: Any,
) -> Any:
    """Applies the mean of all peers' gradients, and measures the gradient noise scale."""
    del name, use_locking, kwargs
    wrapped = kf.optimizers.MonitorGradientNoiseScaleOptimizer(
        optimizer, device_batch_size, monitor_interval=monitor_interval
    )
    return made(wrapped)
