"""What a step of `fit` exchanges: the gradients once, and what else is named here."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from fits import distributed, keras, mine, model_of, samples
from harness import each
from support import operations_done

import kungfu_tf as kf
from kungfu_tf.monitor import measurements

JOBS = [{"np": 2}, {"np": 3}]
BATCH = 4

# Beside the gradients, which are one operation: the number of samples, where batches may differ
# between the peers; and whether to stop, where callbacks of the user's look at each batch.
BESIDE = {"arrays": [], "dealt": [16], "arrays, callback": [1], "dealt, callback": [16, 1]}


def exchanged(model, steps, data, callbacks) -> np.ndarray:
    """The operations of a call of `fit`, and the bytes that this peer gave to them."""
    before = np.array([operations_done(), measurements.latencies().bytes])
    count = steps * BATCH * kf.size()
    if data == "arrays":
        model.fit(*mine(samples(count)), batch_size=BATCH, callbacks=callbacks, verbose=0)
    else:
        dealt = kf.data.shard(tf.data.Dataset.from_tensor_slices(samples(count)))
        model.fit(dealt.batch(BATCH), callbacks=callbacks, verbose=0)
    return np.array([operations_done(), measurements.latencies().bytes]) - before


@each(what=["arrays", "dealt", "arrays, callback", "dealt, callback"])
def case_a_step_exchanges(what):
    """As the difference of two calls: what is agreed once in a call counts in both."""
    data, _, callback = what.partition(", ")
    looks = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    callbacks = [looks] if callback else []
    model = model_of(distributed(), metrics=["accuracy"])
    exchanged(model, 8, data, callbacks)  # builds and traces
    short, long = (exchanged(model, n, data, callbacks) for n in (8, 24))
    gradients = sum(np.asarray(weight).nbytes for weight in model.get_weights())
    expected = [1 + len(BESIDE[what]), gradients + sum(BESIDE[what])]
    assert ((long - short) / 16).tolist() == expected
