"""Mixed precision: a LossScaleOptimizer, of which all peers skip a step or none."""

from __future__ import annotations

import common
import numpy as np

import kungfu_tf as kf

keras = common.keras

images, labels = common.samples()
if kf.rank() == 1:
    images = np.where(np.arange(len(images))[:, None, None, None] < 40, np.inf, images)
keras.mixed_precision.set_global_policy("mixed_float16")
try:
    model = common.build(images)
    model.compile(optimizer=common.wrapped(), loss=common.loss())
    model.fit(common.sharded(images, labels), epochs=1, verbose=0)
finally:
    keras.mixed_precision.set_global_policy("float32")
weights = np.concatenate([np.ravel(w) for w in model.get_weights()])
assert np.isfinite(weights).all(), "a step with infinite gradients was taken"
everybody = kf.ops.all_gather(weights, name="weights").numpy()
assert (everybody == everybody[0]).all(), "the peers hold different weights"
