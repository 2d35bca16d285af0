"""Synchronous SGD that measures how much gradients differ."""

from __future__ import annotations

from typing import Any

from kungfu.tensorflow.optimizers._made import made

import kungfu_tf as kf

__all__ = ["MonitorGradientVarianceOptimizer"]


def MonitorGradientVarianceOptimizer(  # noqa: N802 (KungFu's)
    optimizer: Any,
    monitor_interval: int = 1,
    name: str | None = None,
    use_locking: bool = False,
) -> Any:
    """Applies the mean of all peers' gradients, and measures how much they differ."""
    del name, use_locking
    wrapped = kf.optimizers.MonitorGradientVarianceOptimizer(
        optimizer, monitor_interval=monitor_interval
    )
    return made(wrapped)
