"""Pair averaging."""

from __future__ import annotations

from typing import Any

from kungfu.tensorflow.optimizers._made import made

import kungfu_tf as kf

__all__ = ["PairAveragingOptimizer"]


def PairAveragingOptimizer(  # noqa: N802 (KungFu's)
    optimizer: Any,
    fuse_requests: bool = True,
    fused_model_name: str | None = None,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Trains a model of each peer's own, which it averages with one other peer's at a time."""
    del fused_model_name, name, use_locking, with_keras
    wrapped = kf.optimizers.PairAveragingOptimizer(optimizer, fuse_requests=fuse_requests)
    return made(wrapped)
