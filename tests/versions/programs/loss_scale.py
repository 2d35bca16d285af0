"""Mixed precision: a LossScaleOptimizer, of which all peers skip a step or none."""

from __future__ import annotations

import common
import numpy as np
import tensorflow as tf

import kungfu_tf as kf

keras = common.keras

images, labels = common.samples()


def batches():
    """This peer's; the first two of rank 1 have no finite pixel."""
    faults = 2 if kf.rank() == 1 else 0
    sharded = common.sharded(images, labels).enumerate()
    return sharded.map(lambda i, batch: (batch[0] / tf.cast(i >= faults, batch[0].dtype), batch[1]))


keras.mixed_precision.set_global_policy("mixed_float16")
try:
    model = common.build(images)
    model.compile(optimizer=common.wrapped(), loss=common.loss())
    model.fit(batches(), epochs=1, verbose=0)
finally:
    keras.mixed_precision.set_global_policy("float32")
weights = np.concatenate([np.ravel(w) for w in model.get_weights()])
assert np.isfinite(weights).all(), "a step with infinite gradients was taken"
everybody = kf.ops.all_gather(weights, name="weights").numpy()
assert (everybody == everybody[0]).all(), "the peers hold different weights"
