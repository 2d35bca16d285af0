"""A model with a `train_step` and metrics of its own."""

from __future__ import annotations

from typing import Any

import common
import tensorflow as tf

import kungfu_tf as kf


class Custom(common.keras.Model):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mean_loss = common.keras.metrics.Mean(name="mean_loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.mean_loss]

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            value = common.loss()(y, self(x, training=True))
        gradients = tape.gradient(value, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.mean_loss.update_state(value)
        return {"mean_loss": self.mean_loss.result()}


images, labels = common.samples()
model = common.build(images, Custom)
model.compile(optimizer=common.wrapped())
history = model.fit(common.sharded(images, labels), epochs=common.EPOCHS, verbose=0)
alone, of_one = common.plain(images, labels)
common.check("train_step", model, alone)
last, right = history.history["mean_loss"][-1], of_one.history["loss"][-1]
assert abs(last - right) < 1e-3, (last, right)
losses = kf.ops.all_gather(tf.constant([last], tf.float64), name="losses").numpy()
assert losses.min() == losses.max(), "the peers say different losses"
