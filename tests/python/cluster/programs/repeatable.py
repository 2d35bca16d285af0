"""Trains, and writes a digest of the state after every step to <directory>/<rank>."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf
import training

import kungfu_tf as kf


def main() -> None:
    tf.config.experimental.enable_op_determinism()
    optimizer = kf.optimizers.SynchronousSGDOptimizer(
        tf.keras.optimizers.Adam(0.01), bucket_bytes=600
    )
    data = training.mine(training.epoch("float32"))
    run = training.fit(training.dense_model("float32"), optimizer, data, epochs=2)
    digests = [
        f"{weights} {states}\n" for weights, states in zip(run.weights, run.states, strict=True)
    ]
    Path(sys.argv[1], str(kf.rank())).write_text("".join(digests))


if __name__ == "__main__":
    main()
