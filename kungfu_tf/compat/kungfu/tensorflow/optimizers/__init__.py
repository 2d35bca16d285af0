"""KungFu's optimizers. Each changes the optimizer that it is given, and returns it.

`name`, `use_locking` and `with_keras` have no effect; the options for NCCL have none either, and
give a warning.
"""

from __future__ import annotations

from typing import Any

import kungfu_tf as kf
from kungfu_tf.upstream import warn

__all__ = [
    "AdaptiveSGDOptimizer",
    "MonitorGradientNoiseScaleOptimizer",
    "MonitorGradientVarianceOptimizer",
    "PairAveragingOptimizer",
    "SynchronousAveragingOptimizer",
    "SynchronousSGDOptimizer",
]


def SynchronousSGDOptimizer(  # noqa: N802 (KungFu's, like those below)
    optimizer: Any,
    nccl: bool = False,
    nccl_fusion: bool = True,
    hierarchical_nccl: bool = False,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Applies the mean of all peers' gradients."""
    del nccl_fusion, name, use_locking, with_keras
    if nccl or hierarchical_nccl:
        warn.warn("nccl: kungfu_tf uses none; gradients travel through the host's memory")
    return _with_callable_variables(kf.optimizers.SynchronousSGDOptimizer(optimizer))


def SynchronousAveragingOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    alpha: float = 0.1,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Trains a model of each peer's own, drawn towards the average of all (SMA)."""
    del name, use_locking, with_keras
    return _with_callable_variables(
        kf.optimizers.SynchronousAveragingOptimizer(optimizer, alpha=alpha)
    )


def PairAveragingOptimizer(  # noqa: N802
    optimizer: Any,
    fuse_requests: bool = True,
    fused_model_name: str | None = None,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Trains a model of each peer's own, which it averages with one other peer's at a time."""
    del fused_model_name, name, use_locking, with_keras
    return _with_callable_variables(
        kf.optimizers.PairAveragingOptimizer(optimizer, fuse_requests=fuse_requests)
    )


def AdaptiveSGDOptimizer(  # noqa: N802
    optimizer: Any,
    change_step: int,
    alpha: float = 0.1,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Averages models before a step, gradients from it on."""
    del name, use_locking, with_keras
    return _with_callable_variables(
        kf.optimizers.AdaptiveSGDOptimizer(optimizer, change_step, alpha=alpha)
    )


def MonitorGradientNoiseScaleOptimizer(  # noqa: N802
    optimizer: Any,
    device_batch_size: int,
    monitor_interval: int = 1,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Applies the mean of all peers' gradients, and measures the gradient noise scale."""
    del name, use_locking, with_keras
    return _with_callable_variables(
        kf.optimizers.MonitorGradientNoiseScaleOptimizer(
            optimizer, device_batch_size, monitor_interval=monitor_interval
        )
    )


def MonitorGradientVarianceOptimizer(  # noqa: N802
    optimizer: Any,
    monitor_interval: int = 1,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Applies the mean of all peers' gradients, and measures how much they differ."""
    del name, use_locking, with_keras
    return _with_callable_variables(
        kf.optimizers.MonitorGradientVarianceOptimizer(optimizer, monitor_interval=monitor_interval)
    )


class _Variables(list[Any]):
    """Variables that are asked for as `optimizer.variables`, and as `optimizer.variables()`."""

    def __call__(self) -> _Variables:
        return self


def _with_callable_variables(optimizer: Any) -> Any:
    """Keras 3 has a property where there was a method, and programs broadcast its result."""
    cls = type(optimizer)  # made for this optimizer
    theirs: Any = cls.variables
    if isinstance(theirs, property):
        cls.variables = property(lambda self: _Variables(theirs.__get__(self)))
    return optimizer
