"""Trains a number by a gradient tape, and checks it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from kungfu.tensorflow.initializer import broadcast_variables
from kungfu.tensorflow.ops import current_cluster_size, current_rank
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

_STEPS = 5
_RATE = 0.1


@tf.function
def _train(x: Any, optimizer: Any) -> None:
    with tf.GradientTape() as tape:
        loss = x * x
    optimizer.apply_gradients([(tape.gradient(loss, x), x)])


def main() -> None:
    """The loss is x², so that each step makes x smaller by the same factor."""
    print(f"rank={current_rank()}, np={current_cluster_size()}")
    x = tf.Variable(1.0)
    optimizer = SynchronousSGDOptimizer(tf.keras.optimizers.SGD(_RATE))
    broadcast_variables([x])
    for step in range(1, _STEPS + 1):
        _train(x, optimizer)
        print(f"step {step}: x {float(x):f}")
        if abs(float(x) - (1 - 2 * _RATE) ** step) > 1e-6:
            raise RuntimeError(f"step {step}: wrong value {float(x)}")


if __name__ == "__main__":
    main()
