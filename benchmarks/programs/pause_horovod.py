"""The training of pause.py with Horovod Elastic, which commits each step.

pause_horovod.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import horovod.tensorflow.keras.elastic as elastic
from step_log import BATCH, EPOCHS, STEPS, StepLog, keras, network, samples


def main() -> None:
    hvd.init()
    model = network()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(1e-3)), "mse")
    data = samples().batch(BATCH).repeat()
    model.fit(data, steps_per_epoch=1, verbose=0)  # it needs the variables of the optimizer
    state = elastic.KerasState(model, batch=0, epoch=0)
    log = StepLog(Path(sys.argv[1]), lambda: (hvd.rank(), hvd.size()))

    @elastic.run
    def train(state: Any) -> None:
        own = data.shard(hvd.size(), hvd.rank())
        kept = [elastic.UpdateBatchStateCallback(state), elastic.CommitStateCallback(state)]
        left = EPOCHS - state.epoch
        model.fit(own, steps_per_epoch=STEPS, epochs=left, verbose=0, callbacks=[log, *kept])

    train(state)


if __name__ == "__main__":
    main()
