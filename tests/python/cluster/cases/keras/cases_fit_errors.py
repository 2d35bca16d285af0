"""A `fit` that ends with an error ends on all peers, and the next one is right."""

from __future__ import annotations

import functools
import os
import threading

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 3}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras

STEPS = 4
FAILS = 1  # the rank that does


class DiskFullError(Exception):
    """What no library raises."""


class Raises(keras.callbacks.Callback):
    def __init__(self, when):
        super().__init__()
        self.when = when

    def on_train_begin(self, logs=None):
        self._raise("begin")

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self._raise("batch")

    def on_epoch_end(self, epoch, logs=None):
        self._raise("epoch")

    def on_train_end(self, logs=None):
        self._raise("end")

    def _raise(self, when):
        if when == self.when:
            raise DiskFullError("no space left")


class LossThatFails(keras.losses.Loss):
    """In the middle of a step, when it is told to."""

    def __init__(self):
        super().__init__()
        self.fails = tf.Variable(False, trainable=False)

    def call(self, y_true, y_pred):
        check = tf.debugging.Assert(tf.logical_not(self.fails), ["no space left"])
        with tf.control_dependencies([check]):
            return tf.reduce_mean(tf.square(tf.cast(y_true, y_pred.dtype) - y_pred), axis=-1)


def compiled(loss="mse", seed=3):
    keras.utils.set_random_seed(seed)
    model = training.dense_model()
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    model.compile(optimizer, loss)
    return model


def mine():
    return [part[kf.rank() :: kf.size()] for part in training.samples(3 * STEPS * 2)]


def batches_that_end_in_an_error(x, y):
    for i in (0, 2, 4):  # Keras looks at the first two before it trains
        yield x[i : i + 2], y[i : i + 2]
    raise DiskFullError("no space left")


@each(when=["begin", "batch", "epoch", "end", "step", "data", "generator"])
@exhaustive(when=["begin", "end", "step", "generator"])
def case_of_one_peer(when):
    """All leave `fit` with an error that tells what happened where; then all train on."""
    loss = LossThatFails() if when == "step" else "mse"
    model = compiled(loss)
    is_mine = kf.rank() == FAILS
    data = mine()
    is_raised_by_callback = is_mine and when not in ("step", "data", "generator")
    callbacks = [Raises(when)] if is_raised_by_callback else []
    if when == "step":
        loss.fails.assign(is_mine)
    if when == "data" and is_mine:
        first = tf.data.Dataset.from_tensor_slices(tuple(data)).batch(2).take(2)
        broken = first.map(
            lambda x, y: (tf.debugging.check_numerics(x * np.nan, "no space left"), y)
        )
        given = (first.concatenate(broken),)
    elif when == "generator" and is_mine:
        given = (batches_that_end_in_an_error(*data),)
    else:
        given = (*data, 2)

    def fit():
        return model.fit(*given, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)

    if is_mine:
        text = raised_by(DiskFullError if callbacks else tf.errors.OpError, fit)
        assert "no space left" in text, text
        assert when != "generator" or "in batches_that_end_in_an_error" in text, text
    else:
        text = raised_by(tf.errors.OpError, fit)
        assert "no space left" in text, text
        assert f"rank {FAILS}" in text, text
    if when == "step":
        loss.fails.assign(False)
    for again in (model, compiled(seed=kf.rank())):
        history = again.fit(*data, 2, epochs=2, shuffle=False, verbose=0).history
        assert len(history["loss"]) == 2
        assert kf.ops.consensus(np.asarray(history["loss"]))
        assert kf.ops.consensus(training.digest(training.values_of(again.weights)))


@each(turn=[0, 1, 2])
@exhaustive(turn=[0])
def case_of_all_peers(turn):
    """Each gets its own error, also if others were faster."""
    del turn
    model = compiled()
    for when in ("batch", "epoch", "begin"):
        fit = functools.partial(model.fit, *mine(), 2, verbose=0, callbacks=[Raises(when)])
        raised_by(DiskFullError, fit)
    model.fit(*mine(), 2, verbose=0)
    assert kf.ops.consensus(training.digest(training.values_of(model.weights)))
    kf.barrier()


def case_the_others_hear_of_it_in_any_operation():
    """Also one that is not in a `fit` any more."""
    model = compiled()
    callbacks = [kf.callbacks.BroadcastGlobalVariablesCallback(check_every=None)]
    if kf.rank() == FAILS:
        callbacks.append(Raises("end"))
        raised_by(DiskFullError, lambda: model.fit(*mine(), 2, verbose=0, callbacks=callbacks))
    else:
        model.fit(*mine(), 2, verbose=0, callbacks=callbacks)
        text = raised_by(tf.errors.AbortedError, lambda: kf.ops.all_reduce(1.0, name="sum"))
        assert "DiskFullError: no space left" in text
    model.fit(*mine(), 2, verbose=0)
    assert kf.ops.all_reduce(1.0, name="sum") == 3


def case_before_the_first_callback():
    """What is wrong on one peer only is known to all."""
    model = compiled()
    if kf.rank() == FAILS:
        os.environ["KUNGFU_VERBOSE"] = "some"
    try:
        text = raised_by(Exception, lambda: model.fit(*mine(), 2, verbose=0))
    finally:
        os.environ.pop("KUNGFU_VERBOSE", None)
    assert "KUNGFU_VERBOSE" in text, text
    model.fit(*mine(), 2, verbose=0)
    assert kf.ops.consensus(training.digest(training.values_of(model.weights)))


@each(differs=["width", "depth", "optimizer"])
@exhaustive(differs=["depth", "optimizer"])
def case_other_models_on_other_peers(differs):
    """The message says that they differ, on all peers."""
    is_other = kf.rank() == FAILS
    keras.utils.set_random_seed(3)
    widths = [4 + is_other] if differs == "width" else [4] * (1 + (is_other and differs == "depth"))
    hidden = [keras.layers.Dense(width) for width in widths]
    first = keras.layers.Input((training.FEATURES,))
    model = keras.Sequential([first, *hidden, keras.layers.Dense(1)])
    family = keras.optimizers
    optimizer = family.Adam if is_other and differs == "optimizer" else family.SGD
    model.compile(SynchronousSGDOptimizer(optimizer(0.1)), "mse")
    text = raised_by(tf.errors.OpError, lambda: model.fit(*mine(), 2, verbose=0))
    assert "models are not the same" in text and "function_node" not in text, text
    same = compiled()
    same.fit(*mine(), 2, verbose=0)
    assert kf.ops.consensus(training.digest(training.values_of(same.weights)))


class WaitsInTheFirstBatch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.is_there, self.may_go_on = threading.Event(), threading.Event()

    def on_train_batch_end(self, batch, logs=None):
        self.is_there.set()
        assert self.may_go_on.wait(60)


def case_a_second_thread_that_trains():
    """It is refused, and the first one's training ends, too, on all peers."""
    model, other, waits = compiled(), compiled(), WaitsInTheFirstBatch()
    errors = []

    def train(callbacks=()):
        errors.append(
            raised_by(Exception, lambda: model.fit(*mine(), 2, verbose=0, callbacks=callbacks))
        )

    if kf.rank() == FAILS:
        first = threading.Thread(target=train, args=([waits],), name="first")
        first.start()
        assert waits.is_there.wait(60)
        error = kf.errors.FailedPreconditionError
        text = raised_by(error, lambda: other.fit(*mine(), 2, verbose=0))
        assert "thread 'MainThread' trains while another thread, 'first', does" in text, text
        waits.may_go_on.set()
        first.join(60)
    else:
        train()
    assert len(errors) == 1 and "another thread, 'first'" in errors[0], errors
    other.fit(*mine(), 2, verbose=0)
    assert kf.ops.consensus(training.digest(training.values_of(other.weights)))
