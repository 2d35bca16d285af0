"""`elastic.fit` of one peer, then two, then one again; each sample of an epoch is trained on once.

kungfu-run -w -np 1 -H 127.0.0.1:2
"""

from __future__ import annotations

import common
import tensorflow as tf

import kungfu_tf as kf

sizes = []


def wanted(step: int) -> int:
    """Two peers until they have made some steps together, then one."""
    return 2 if sizes.count(2) < 10 else 1


class Seen(common.keras.callbacks.Callback):
    """Notes the size in each step."""

    def on_train_batch_end(self, batch, logs=None):
        sizes.append(kf.size())
        if sizes[-1] == 1 and 2 in sizes:
            self.model.stop_training = True


images, labels = common.samples(steps=40)
dataset = kf.data.shard(tf.data.Dataset.from_tensor_slices((images, labels)), shuffle=100)
model = common.build(images)
model.compile(optimizer=common.wrapped(), loss=common.loss(), metrics=["accuracy"])
kf.elastic.fit(
    model,
    dataset.batch(common.BATCH),
    epochs=10_000,
    callbacks=[kf.callbacks.ElasticCallback(wanted), Seen()],
    verbose=0,
)
if not kf.detached():
    assert (sizes[0], sizes.count(2) > 0, sizes[-1]) == (1, True, 1), sizes
    print("passed elastic", flush=True)
