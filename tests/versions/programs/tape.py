"""A loop of the program's own, with a GradientTape in a tf.function."""

from __future__ import annotations

import common
import tensorflow as tf

import kungfu_tf as kf

images, labels = common.samples()
model, optimizer, loss = common.build(images), common.sgd(), common.loss()
optimizer.build(model.trainable_variables)
variables = optimizer.variables
kf.initializer.broadcast_variables(
    [*model.variables, *(variables() if callable(variables) else variables)]
)


@tf.function
def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        value = loss(y, model(x, training=True))
    gradients = kf.DistributedGradientTape(tape).gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return value


for _ in range(common.EPOCHS):
    for batch in common.sharded(images, labels):
        step(*batch)
common.check("tape", model, common.plain(images, labels)[0])
