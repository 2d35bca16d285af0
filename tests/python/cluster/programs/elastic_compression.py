"""`elastic.fit` of two peers with a codec that keeps state, and a third one comes; prints "ok".

Before it comes, all get the mean of what was not sent, and the newcomer begins with it. Rank 0 then
makes the same steps alone, in NumPy. The last argument names the codec.
"""

from __future__ import annotations

import sys
from typing import Any

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
from third_comes import BEFORE, TOGETHER, Steps

import kungfu_tf as kf

keras = tf.keras
keras.backend.set_floatx("float64")
RATE, SHAPE = 1 / 8, (6, 5)
CODECS: dict[str, Any] = {
    "power": (
        kf.compression.PowerSGD(rank=1, min_rate=1),
        codecs.PowerSGD(rank=1, min_rate=1),
    ),
    "top": (kf.compression.TopK(ratio=0.2, at_least=1), codecs.TopK(ratio=0.2, at_least=1)),
}


def target_of(rank: int) -> Any:
    """What the weights of a peer are drawn to."""
    return np.random.default_rng(rank).normal(size=SHAPE)


def expected(sizes: list[int], codec: Any) -> Any:
    """The weights at the end, if each peer's gradient is w − its target."""
    weights = np.zeros(SHAPE)
    for step, size in enumerate(sizes):
        if step and size != sizes[step - 1]:
            kept = codec.errors[0].mean(axis=0)
            codec.errors[0] = np.stack([kept] * size)
        gradients = np.stack([weights - target_of(rank) for rank in range(size)])
        [mean] = codec.means([gradients])
        weights = weights - RATE * mean
    return weights


class Weights(keras.Model):
    """A matrix, drawn towards that of its peer."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = self.add_weight(shape=SHAPE, initializer="zeros", name="matrix")
        self.targets = tf.constant(np.stack([target_of(rank) for rank in range(3)]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(x) + tf.reduce_sum(self.matrix)

    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        target = self.targets[kf.ops.peer_info()[0]]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.convert_to_tensor(self.matrix) - target)) / 2
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


def main() -> None:
    codec, in_numpy = CODECS[sys.argv[-1]]
    model, steps = Weights(), Steps()
    model(np.zeros([1, 1]))
    inner = keras.optimizers.SGD(RATE)
    model.compile(kf.optimizers.SynchronousSGDOptimizer(inner, compression=codec), "mse")
    samples = tf.data.Dataset.from_tensor_slices(np.zeros([6000, 1]))
    dataset = kf.data.shard(samples).batch(2, drop_remainder=True)
    kf.elastic.fit(model, dataset, epochs=10**6, verbose=0, callbacks=[steps])
    [weights] = model.get_weights()
    assert kf.ops.consensus(weights)
    for i, variable in enumerate(model.optimizer.kungfu_algorithm.variables):
        assert kf.ops.consensus(variable.numpy(), name=f"state/{i}"), variable.name
    if kf.is_root():
        assert steps.sizes.count(3) == TOGETHER and steps.sizes.count(2) >= BEFORE, steps.sizes
        np.testing.assert_allclose(weights, expected(steps.sizes, in_numpy), rtol=1e-11)
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
