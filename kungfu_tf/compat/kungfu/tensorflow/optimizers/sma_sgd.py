"""Synchronous model averaging."""

from __future__ import annotations

from typing import Any

from kungfu.tensorflow.optimizers._made import made

import kungfu_tf as kf

__all__ = ["SynchronousAveragingOptimizer"]


def SynchronousAveragingOptimizer(  # noqa: N802 (KungFu's)
    optimizer: Any,
    name: str | None = None,
    alpha: float = 0.1,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Trains a model of each peer's own, drawn towards the average of all (SMA)."""
    del name, use_locking, with_keras
    wrapped = kf.optimizers.SynchronousAveragingOptimizer(optimizer, alpha=alpha)
    return made(wrapped)
