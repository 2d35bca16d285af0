"""Pair averaging, of which rank 0 takes three times as many steps as those who then have ended."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from endings import wait_until_gone

import kungfu_tf as kf

STEPS = 10
keras = tf.keras


def main() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile(kf.optimizers.PairAveragingOptimizer(keras.optimizers.SGD(0.01)), "mse")
    x = np.random.default_rng(kf.rank()).normal(size=(8, 4)).astype("float32")
    kf.ops.save_variable(tf.constant(1), name="here")
    kf.barrier()
    for _ in range(STEPS):
        model.train_on_batch(x, x[:, :1])
    if kf.is_root():
        for rank in range(1, kf.size()):
            wait_until_gone(rank)
        for _ in range(2 * STEPS):
            model.train_on_batch(x, x[:, :1])
    print("steps", int(model.optimizer.iterations.numpy()), flush=True)


if __name__ == "__main__":
    main()
