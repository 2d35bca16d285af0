"""One process of a system: what training takes beside the model, in memory.

memory.py SYSTEM REPORT STEPS

Trains a dense model of 100 MiB. The first process writes to REPORT "peak BYTES", the largest
proportional set size (what is shared with others counts by its share) that was seen after the first
step, and "gradients BYTES".
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

WIDTH, LAYERS, BATCH = 2560, 4, 8  # 25 MiB a layer
keras = tf.keras
system = importlib.import_module(f"adapters.{sys.argv[1]}")


def proportional_set_size() -> int:
    """Bytes."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    raise ValueError("no Pss in /proc/self/smaps_rollup")


class Watch(threading.Thread):
    """Looks again and again, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            self.peak = max(self.peak, proportional_set_size())
            time.sleep(0.002)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def main() -> None:
    report, steps = Path(sys.argv[2]), int(sys.argv[3])
    model = keras.Sequential(
        [keras.Input((WIDTH,)), *(keras.layers.Dense(WIDTH, "relu") for _ in range(LAYERS))]
    )
    optimizer = system.optimizer(keras.optimizers.SGD(1e-3))
    model.compile(optimizer, "mse", jit_compile=False)
    images: Any = tf.random.uniform((BATCH * steps, WIDTH))
    data = tf.data.Dataset.from_tensor_slices((images, images)).batch(BATCH, drop_remainder=True)
    model.fit(data.take(1), verbose=0)
    watch = Watch()
    watch.start()
    model.fit(data, verbose=0)
    watch.stop()
    if system.rank() == 0:
        gradients = sum(4 * variable.shape.num_elements() for variable in model.trainable_variables)
        report.write_text(f"peak {watch.peak}\ngradients {gradients}\n")


if __name__ == "__main__":
    main()
