"""`fit` while meetings are under way: what it leaves, what it saves, and how it resumes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import training
from fits import Seen, keras, mine, model_of, same_on_all, samples
from harness import Skip, each, exhaustive
from support import logged, operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import DiLoCoOptimizer, LocalSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}, {"np": 1, "cases": ["the_model_of_one_process"]}]
TIMEOUT = 200

BATCH, STEPS = 4, 6  # of an epoch
# Each epoch ends between two meetings, and the second one while something is under way.
METHODS = {
    "local": lambda o: LocalSGDOptimizer(o, every=5),
    "diloco": lambda o: DiLoCoOptimizer(o, every=5),
    "overlap": lambda o: DiLoCoOptimizer(o, every=5, overlap=3),
    "fragments": lambda o: DiLoCoOptimizer(o, every=8, fragments=2, overlap=2),
}
ALL = ["local", "diloco", "overlap", "fragments"]


def inner():
    return keras.optimizers.Adam(0.01)


def algorithm_of(model):
    [algorithm] = generations.algorithms_of_model(model)
    return algorithm


def fit(model, *callbacks, epochs=1, steps=STEPS):
    x, y = mine(samples(steps * BATCH * kf.size()))
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    model.fit(x, y, epochs=epochs, callbacks=list(callbacks), **options)


class Interrupted(Exception):
    """What ends a training on purpose."""


class Interrupts(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise Interrupted


@each(method=["overlap", "fragments"])
@exhaustive(method=["fragments"])
def case_the_model_of_fit(method):
    has_the_anchors(method)


@exhaustive()
def case_the_model_of_one_process():
    has_the_anchors("fragments")


def has_the_anchors(method):
    """An epoch's end has the anchors. The end of `fit` ends what is under way, and meets again."""
    model, ends = model_of(METHODS[method](inner())), []
    under_way = []

    def see(epoch, logs):
        ends.append(
            (training.flat_weights(model), [a.numpy() for a in algorithm_of(model).anchors])
        )
        under_way.append(int(algorithm_of(model).state.under_way))

    fit(model, keras.callbacks.LambdaCallback(on_epoch_end=see), epochs=2)
    for weights, anchors in ends:
        np.testing.assert_array_equal(weights, training.flat(anchors))
        assert same_on_all(weights)
    assert under_way[-1] >= 0
    assert same_on_all(training.flat_weights(model))
    assert np.abs(training.flat_weights(model) - ends[-1][0]).max() > 1e-6
    assert int(algorithm_of(model).state.under_way) == -1


@exhaustive()
def case_nothing_is_said_between_meetings():
    model = model_of(DiLoCoOptimizer(inner(), every=1000, fragments=2, overlap=100))
    fit(model)
    spent = []
    for steps in (8, 24):
        before = operations_done()
        fit(model, steps=steps)
        spent.append(operations_done() - before)
    assert spent[0] == spent[1], spent


@exhaustive()
def case_a_callback_stops_while_something_is_under_way():
    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1 and kf.rank() == 1:
                self.model.stop_training = True

    model, watch = model_of(METHODS["overlap"](inner())), Seen()
    fit(model, Stops(), watch, steps=20)
    assert watch.batches == 5
    assert same_on_all(training.flat_weights(model))


@exhaustive()
def case_a_fit_after_one_that_failed_while_something_was_under_way():
    class Raises(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 5 and kf.rank() == 1:
                raise ValueError("on purpose")

    model = model_of(METHODS["overlap"](inner()))
    raised_by(Exception, lambda: fit(model, Raises(), steps=10))
    fit(model, steps=10)
    assert same_on_all(training.flat_weights(model))


def folder_of(name):
    return os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{name}")


@contextlib.contextmanager
def interrupted(method):
    """A training of two epochs that was interrupted, and its folder."""
    folder = folder_of(method)
    try:
        with contextlib.suppress(Interrupted):
            model = model_of(METHODS[method](inner()))
            fit(model, keras.callbacks.BackupAndRestore(folder), Interrupts(2), epochs=4)
        yield folder
    finally:
        kf.barrier()
        if kf.is_root():
            shutil.rmtree(folder, ignore_errors=True)


@each(method=ALL)
@exhaustive(method=["fragments"])
def case_a_training_resumes_between_two_meetings(method):
    """It is as if it had not been interrupted: each peer has its own model and slots again."""
    if not training.is_keras_3():
        raise Skip("BackupAndRestore of Keras 2 does not keep the algorithm's state")
    whole = model_of(METHODS[method](inner()))
    fit(whole, epochs=4)
    with interrupted(method) as folder:
        resumed = model_of(METHODS[method](inner()))
        fit(resumed, keras.callbacks.BackupAndRestore(folder), epochs=4)
        np.testing.assert_allclose(
            training.flat_weights(resumed), training.flat_weights(whole), rtol=1e-12, atol=1e-12
        )
        assert int(algorithm_of(resumed).schedule.steps) == 4 * STEPS
        kf.barrier()
        assert not Path(folder).exists()  # as after any training that was completed


@each(method=["local", "overlap"])
@exhaustive()
def case_a_training_resumes_without_the_part_of_a_peer(method):
    """From what all have in common."""
    if not training.is_keras_3():
        raise Skip("BackupAndRestore of Keras 2 does not keep the algorithm's state")
    with interrupted(method) as folder:
        for path in Path(folder).glob(f"kungfu_own/*-rank-1-of-{kf.size()}.npz"):
            if kf.rank() == 1:
                path.unlink()
        kf.barrier()
        resumed = model_of(METHODS[method](inner()))
        with logged("kungfu_tf") as messages:
            fit(resumed, keras.callbacks.BackupAndRestore(folder), epochs=4)
        found = [message for message in messages if "peers' own" in message]
        assert len(found) == (1 if kf.is_root() else 0), messages
        assert not found or "rank 1" in found[0], found
        assert same_on_all(training.flat_weights(resumed))


def case_refused_with_a_codec():
    text = raised_by(
        ValueError,
        lambda: DiLoCoOptimizer(inner(), every=5, overlap=2, compression=kf.compression.Int8()),
    )
    assert "overlap" in text and "compression" in text
