"""Keras' everyday callbacks do the same on all peers, but only rank 0 writes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import common

import kungfu_tf as kf

keras = common.keras

images, labels = common.samples()
here = Path(tempfile.mkdtemp(prefix=f"rank-{kf.rank()}-"))
model = common.build(images)
model.compile(optimizer=common.wrapped(), loss=common.loss())
stop = keras.callbacks.EarlyStopping(monitor="loss", min_delta=10.0, patience=2)
slow = keras.callbacks.ReduceLROnPlateau(monitor="loss", min_delta=10.0, patience=1, min_lr=1e-3)
history = model.fit(
    common.sharded(images, labels),
    epochs=9,
    callbacks=[
        keras.callbacks.ModelCheckpoint(str(here / "best.weights.h5"), save_weights_only=True),
        keras.callbacks.ModelCheckpoint(str(here / "{epoch}.keras"), save_freq=5),
        keras.callbacks.CSVLogger(str(here / "log.csv")),
        keras.callbacks.BackupAndRestore(str(here / "backup")),
        kf.callbacks.LearningRateWarmupCallback(initial_lr=0.05, warmup_epochs=2),
        stop,
        slow,
    ],
    verbose=0,
)
assert len(history.history["loss"]) == 3, history.history  # two epochs without an improvement
written = sorted(path.name for path in here.iterdir() if path.is_file())
if kf.is_root():
    assert written == ["1.keras", "2.keras", "3.keras", "best.weights.h5", "log.csv"], written
    assert len((here / "log.csv").read_text().splitlines()) == 4
    model.load_weights(str(here / "best.weights.h5"))
else:
    assert written == [], written
