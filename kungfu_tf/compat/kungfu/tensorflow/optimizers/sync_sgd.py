"""Synchronous SGD."""

from __future__ import annotations

from typing import Any

from kungfu.tensorflow.optimizers._made import made, without_number

import kungfu_tf as kf
from kungfu_tf.upstream import warn

__all__ = ["SynchronousSGDOptimizer"]


def SynchronousSGDOptimizer(  # noqa: N802 (KungFu's)
    optimizer: Any,
    nccl: bool = False,
    nccl_fusion: bool = False,
    hierarchical_nccl: bool = False,
    monitor: bool = False,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Applies the mean of all peers' gradients, whose travel `calc_stats` measures if asked to."""
    del nccl_fusion, name, use_locking, with_keras
    if nccl or hierarchical_nccl:
        warn.warn("nccl: kungfu_tf uses none; gradients travel through the host's memory")
    wrapped = kf.optimizers.SynchronousSGDOptimizer(optimizer, monitor=monitor)
    return made(without_number(wrapped))
