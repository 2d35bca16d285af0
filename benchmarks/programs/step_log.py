"""The training of which benchmarks/pause.py takes a peer away, and the log of its steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

keras = tf.keras
FEATURES, BATCH, STEPS = 256, 16, 50  # steps of an epoch, of four peers
EPOCHS = 10**6  # until it is ended


def network() -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(512, "relu") for _ in range(3)]
    return keras.Sequential([keras.layers.Input((FEATURES,)), *layers, keras.layers.Dense(1)])


def samples() -> Any:
    """Of an epoch of four peers."""
    random = np.random.default_rng(1)
    x = random.normal(size=(4 * BATCH * STEPS, FEATURES)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1]))


class StepLog(keras.callbacks.Callback):
    """Writes a line for each step: the clock, the steps so far, rank and size.

    Args:
        folder: There each process has a file, which its pid names.
        place: Says the rank and the size.
    """

    def __init__(self, folder: Path, place: Callable[[], tuple[int, int]]) -> None:
        super().__init__()
        self._file = (folder / str(os.getpid())).open("w", buffering=1)
        self._place = place

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        steps = int(self.model.optimizer.iterations.numpy())
        print(time.perf_counter(), steps, *self._place(), file=self._file)
