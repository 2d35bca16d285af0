"""Peers with different numbers of batches, and smaller last ones."""

from __future__ import annotations

import common
import numpy as np
import tensorflow as tf

import kungfu_tf as kf

images, labels = common.samples()
cut = 3 * common.BATCH + 5  # rank 0 has so many samples, the last rank the others
bounds = [0, *(cut + rank * 7 for rank in range(kf.size() - 1)), len(images)]
mine = slice(bounds[kf.rank()], bounds[kf.rank() + 1])
model = common.build(images)
model.compile(optimizer=common.wrapped(), loss=common.loss())
model.fit(images[mine], labels[mine], batch_size=common.BATCH, shuffle=False, epochs=1, verbose=0)

# One process that takes the same steps: of each peer the next batch, as long as it has any.
alone = common.build(images)
alone.compile(optimizer=common.sgd(), loss=common.loss())
parts = [np.arange(*bounds[rank : rank + 2]) for rank in range(kf.size())]
while any(len(part) for part in parts):
    batch = np.concatenate([part[: common.BATCH] for part in parts])
    parts = [part[common.BATCH :] for part in parts]
    with tf.GradientTape() as tape:
        value = common.loss()(labels[batch], alone(images[batch], training=True))
    gradients = tape.gradient(value, alone.trainable_variables)
    alone.optimizer.apply_gradients(zip(gradients, alone.trainable_variables, strict=True))
common.check("uneven", model, alone)
