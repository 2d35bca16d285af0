"""A `fit` that loses peers: pause.py FOLDER [backup]

Each process logs its steps in FOLDER. With "backup" there is one after each epoch. A process that
gets SIGUSR1 resets its connections with other peers.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from step_log import BATCH, EPOCHS, StepLog, keras, network, samples

import kungfu_tf as kf
from tests.fault.peers import cut_connections


def main() -> None:
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGUSR1, lambda *_: cut_connections())
    model = network()
    model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(1e-3)), "mse")
    callbacks = [StepLog(folder, lambda: (kf.rank(), kf.size()))]
    if "backup" in sys.argv:
        callbacks.append(keras.callbacks.BackupAndRestore(str(folder / "backup")))
    data = kf.data.shard(samples()).batch(BATCH)
    model.fit(data, epochs=EPOCHS, verbose=0, callbacks=callbacks)


if __name__ == "__main__":
    main()
