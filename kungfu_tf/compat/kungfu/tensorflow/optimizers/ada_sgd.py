"""Model averaging first, synchronous SGD afterwards."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from kungfu.tensorflow.optimizers._made import made

import kungfu_tf as kf

__all__ = ["AdaSGDHook", "AdaptiveSGDOptimizer"]


def AdaptiveSGDOptimizer(  # noqa: N802 (KungFu's)
    optimizer: Any,
    change_step: int,
    alpha: float = 0.1,
    name: str | None = None,
    use_locking: bool = False,
    with_keras: bool = False,
) -> Any:
    """Averages models before a step, gradients from it on."""
    del name, use_locking, with_keras
    wrapped = kf.optimizers.AdaptiveSGDOptimizer(optimizer, change_step, alpha=alpha)
    return made(wrapped)


class AdaSGDHook(tf.compat.v1.train.SessionRunHook):
    """Does nothing: the optimizer itself makes all peers equal when the gradients begin.

    Args:
        change_step: As for the optimizer.
    """

    def __init__(self, change_step: int) -> None:
        super().__init__()
        self.change_step = change_step
