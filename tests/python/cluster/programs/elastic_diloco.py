"""`elastic.fit` of two peers that meet sometimes, and a third one comes; prints "ok" on each.

It comes between two meetings. So there is one before it comes, and all go on from the anchor, with
the momentum of the outer optimizer. Rank 0 then makes the same steps alone, in NumPy.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from third_comes import BEFORE, TOGETHER, Steps

import kungfu_tf as kf

keras = tf.keras
keras.backend.set_floatx("float64")
EVERY = 4
RATE, OUTER_RATE, MOMENTUM = 1 / 8, 0.5, 0.75


def expected(sizes: list[int]) -> float:
    """The weight w at the end, if each step of the peer with number i has the gradient w − i − 1.

    Every change of the peers is a meeting, and so is the end.
    """
    anchor, speed, since = 0.0, 0.0, 0
    weights = np.zeros(sizes[0])
    for step, size in enumerate(sizes):
        weights = weights - RATE * (weights - np.arange(size) - 1)
        since += 1
        following = sizes[step + 1] if step + 1 < len(sizes) else None
        if since == EVERY or following != size:
            move = OUTER_RATE * (anchor - weights.mean())
            speed = MOMENTUM * speed - move
            anchor += MOMENTUM * speed - move
            weights, since = np.full(following or size, anchor), 0
    return float(weights[0])


class Weight(keras.Model):
    """One weight, drawn towards the number of its peer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="zeros", name="weight")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(x) + self.weight

    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        target = tf.cast(kf.ops.peer_info()[0], tf.float64) + 1.0
        with tf.GradientTape() as tape:
            loss = tf.square(tf.convert_to_tensor(self.weight) - target) / 2
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


def main() -> None:
    model, steps = Weight(), Steps()
    model(np.zeros([1, 1]))
    outer = keras.optimizers.SGD(OUTER_RATE, momentum=MOMENTUM, nesterov=True)
    inner = keras.optimizers.SGD(RATE)
    model.compile(kf.optimizers.DiLoCoOptimizer(inner, outer=outer, every=EVERY), "mse")
    samples = tf.data.Dataset.from_tensor_slices(np.zeros([6000, 1]))
    dataset = kf.data.shard(samples).batch(2, drop_remainder=True)
    kf.elastic.fit(model, dataset, epochs=10**6, verbose=0, callbacks=[steps])
    [weight] = model.get_weights()
    assert kf.ops.consensus(weight)
    algorithm = model.optimizer.kungfu_algorithm
    for i, variable in enumerate(algorithm.variables):
        assert kf.ops.consensus(variable.numpy(), name=f"state/{i}"), variable.name
    if kf.is_root():
        assert steps.sizes.count(3) == TOGETHER and steps.sizes.count(2) >= BEFORE, steps.sizes
        np.testing.assert_allclose(weight, expected(steps.sizes), rtol=1e-12)
        assert int(algorithm.schedule.steps) == len(steps.sizes)
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
