"""The README's program: a wrapped optimizer, `data.shard`, validation, metrics."""

from __future__ import annotations

import common
import numpy as np

import kungfu_tf as kf

images, labels = common.samples()
dataset = kf.data.shard(common.tf.data.Dataset.from_tensor_slices((images, labels)))
optimizer = kf.optimizers.SynchronousSGDOptimizer(common.sgd())
model = common.build(images)
model.compile(optimizer=optimizer, loss=common.loss(), metrics=["accuracy"])
validation = common.joint(images[:200], labels[:200])
history = model.fit(
    dataset.batch(common.BATCH), epochs=common.EPOCHS, validation_data=validation, verbose=2
)

alone = common.build(images)
alone.compile(optimizer=common.sgd(), loss=common.loss(), metrics=["accuracy"])
of_one = alone.fit(
    common.joint(images, labels), epochs=common.EPOCHS, validation_data=validation, verbose=0
)
common.check("readme", model, alone)
assert history.history.keys() == of_one.history.keys()
for key, values in of_one.history.items():
    np.testing.assert_allclose(history.history[key], values, atol=1e-3, err_msg=key)
