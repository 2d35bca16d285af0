"""A program for Horovod and Keras: it goes on while processes come, go and fail.

horovodrun -np 2 python hvd_elastic_keras.py --plan '{"[1, 2]": 3}'

The plan says what happens after a batch of an epoch: a number of processes that is asked for,
"die" (the last process is killed), or "raise" (its program ends with an error).
"""

import argparse
import json
import os
import signal
import time

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from tensorflow import keras

import kungfu_tf as kf

parser = argparse.ArgumentParser()
parser.add_argument("--plan", type=json.loads)
args = parser.parse_args()
RATE, EPOCHS, STEPS = 0.05, 4, 4
MOST = 3  # processes: only then is the last one lost

hvd.init()
keras.utils.set_random_seed(hvd.rank())

inputs = tf.fill((4, 2), 1.0 + hvd.rank())
dataset = tf.data.Dataset.from_tensors((inputs, tf.ones((4, 1)))).repeat()
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(RATE * hvd.size(), momentum=0.5))
model.compile(loss="mse", optimizer=optimizer)

# Horovod: initialize optimizer state so we can synchronize across workers.
model.fit(dataset, steps_per_epoch=1, epochs=1, verbose=0)
state = hvd.elastic.KerasState(model, batch=0, epoch=0, sizes=[])


def on_state_reset():
    state.model.optimizer.learning_rate.assign(RATE * hvd.size())
    # Re-initialize, to join with possible new ranks.
    state.model.fit(dataset, steps_per_epoch=1, epochs=1, verbose=0)


state.register_reset_callbacks([on_state_reset])


class Happens(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        # Whoever is lost below has come to the second call, so all have the first one's result.
        size, _ = (len(hvd.allgather(np.ones(1))) for _ in range(2))
        state.sizes = [*state.sizes, size]
        what = args.plan.get(str([state.epoch, batch]))
        is_root, is_last = hvd.rank() == 0, hvd.rank() == hvd.size() - 1
        if isinstance(what, int) and is_root and what != hvd.size():
            kf.propose_new_size(what)
            deadline = time.monotonic() + 120
            while state._host_messages.empty():
                assert time.monotonic() < deadline
                time.sleep(0.05)
        if is_last and hvd.size() == MOST:
            if what == "raise":
                raise RuntimeError("as planned")
            if what == "die":
                os.kill(os.getpid(), signal.SIGKILL)


callbacks = [
    Happens(),
    hvd.elastic.UpdateEpochStateCallback(state),
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
]


@hvd.elastic.run
def train(state):
    print("trains from epoch", state.epoch, "batch", state.batch)
    state.model.fit(
        dataset,
        steps_per_epoch=STEPS,
        epochs=EPOCHS - state.epoch,
        callbacks=callbacks,
        verbose=0,
    )


train(state)
checksum = float(np.sum([np.abs(w).sum() for w in model.get_weights()]))
rate = float(np.asarray(model.optimizer.learning_rate))
print(f"epochs: {state.epoch}, sizes: {state.sizes}, rate: {rate:.2f}, checksum: {checksum!r}")
