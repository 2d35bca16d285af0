"""Metrics are those of all peers' samples, also ones that are no means."""

from __future__ import annotations

import common
import numpy as np

keras = common.keras

images, labels = common.samples()
labels = (labels % 2).astype(np.float32)[:, None]


def compiled(optimizer):
    model = common.build(images, outputs=1)
    metrics = [
        keras.metrics.AUC(name="auc", from_logits=True),
        keras.metrics.Precision(name="precision", thresholds=0),
    ]
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=metrics)
    return model


seen = []


class Seen(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        seen.append(dict(logs))


model, alone = compiled(common.wrapped()), compiled(common.sgd())
model.fit(
    common.sharded(images, labels),
    validation_data=common.sharded(images[:320], labels[:320]),
    epochs=common.EPOCHS,
    callbacks=[Seen()],
    verbose=0,
)
of_one = alone.fit(
    common.joint(images, labels),
    validation_data=common.joint(images[:320], labels[:320]),
    epochs=common.EPOCHS,
    verbose=0,
).history
assert {"auc", "precision", "loss", "val_auc", "val_precision", "val_loss"} <= seen[0].keys()
for epoch, logs in enumerate(seen):
    for name in of_one:
        np.testing.assert_allclose(logs[name], of_one[name][epoch], atol=2e-3, err_msg=name)
