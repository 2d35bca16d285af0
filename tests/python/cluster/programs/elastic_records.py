"""`elastic.fit` of two peers on files of TFRecords, and a third one comes; prints "ok" on each.

elastic_records.py FOLDER. It comes in the first epoch, in which each record is trained on once.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from third_comes import BEFORE, TOGETHER, Steps

import kungfu_tf as kf

keras = tf.keras
FOLDER = Path(sys.argv[1])
LENGTHS, BATCH = (50, 1, 69), 4  # records of three files
RECORDS = sum(LENGTHS)


class Seen(keras.Model):
    """Notes the records that its peer trains on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="zeros", name="weight")
        self.epoch, self.records = 0, set[int]()

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, tf.float32) * self.weight

    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = data.numpy().tolist()
        if self.epoch == 0 and not kf.joining():  # a newcomer tries a step, alone
            assert not self.records & {*rows}
            self.records.update(rows)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(data)))
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


class Epochs(keras.callbacks.Callback):
    """Tells the model the number of the epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.epoch = epoch


def write() -> None:
    """Files in which `row` counts, from one to the next."""
    ends = [*itertools.accumulate(LENGTHS)]
    for end, length in zip(ends, LENGTHS, strict=True):
        with tf.io.TFRecordWriter(str(FOLDER / f"{end:03}")) as file:
            for row in range(end - length, end):
                value = tf.train.Feature(int64_list=tf.train.Int64List(value=[row]))
                features = tf.train.Features(feature={"row": value})
                file.write(tf.train.Example(features=features).SerializeToString())


def main() -> None:
    is_newcomer = kf.joining()
    if not is_newcomer:
        if kf.is_root():
            write()
        kf.barrier()
    features = {"row": tf.io.FixedLenFeature((), tf.int64)}
    dataset = kf.data.tfrecords(FOLDER, features, BATCH).map(lambda batch: batch["row"])
    model, steps = Seen(), Steps()
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.0))
    model.compile(optimizer, run_eagerly=True)
    kf.elastic.fit(model, dataset, epochs=2, verbose=0, callbacks=[Epochs(), steps])
    assert steps.sizes.count(3) == TOGETHER, steps.sizes
    assert is_newcomer or steps.sizes.count(2) >= BEFORE, steps.sizes
    mine = np.array([row in model.records for row in range(RECORDS)], np.int32)
    times = kf.ops.all_reduce(mine, op="sum", name="records").numpy()
    assert times.tolist() == RECORDS * [1], times
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
