"""A saved model is a plain one; wrapped again, it trains on as if it had never been saved."""

from __future__ import annotations

import tempfile

import common
import numpy as np
import tensorflow as tf

import kungfu_tf as kf

keras = common.keras

images, labels = common.samples()
file, weights = (f"{tempfile.mkdtemp()}/{name}" for name in ("model.keras", "saved.weights.h5"))
model = common.build(images)
model.compile(optimizer=common.wrapped(), loss=common.loss())
model.fit(common.sharded(images, labels), epochs=1, verbose=0)
model.save(file)
model.save_weights(weights)

opened = keras.models.load_model(file)
assert type(opened.optimizer) is keras.optimizers.SGD
for mine, theirs in zip(opened.get_weights(), model.get_weights(), strict=True):
    np.testing.assert_array_equal(mine, theirs)
model.load_weights(weights)

kf.optimizers.SynchronousSGDOptimizer(opened.optimizer)
for each in (model, opened):
    each.fit(common.sharded(images, labels), epochs=1, verbose=0)
for mine, theirs in zip(opened.get_weights(), model.get_weights(), strict=True):
    np.testing.assert_array_equal(mine, theirs)
common.check("saving", opened, common.plain(images, labels)[0])
config = keras.optimizers.serialize(model.optimizer)
assert config == keras.optimizers.serialize(common.sgd()) or config["class_name"] == "SGD", config
assert tf.io.gfile.exists(file)
