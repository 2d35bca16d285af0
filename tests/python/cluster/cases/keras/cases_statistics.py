"""Moving statistics of all peers' batches: at an epoch's end, and in whatever is saved."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive
from support import logged, operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.replicas.moving_statistics import average_statistics

JOBS = [{"np": 4}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras
layers = keras.layers


class Moving(layers.Layer):
    """What a layer of a user's own may hold."""

    def build(self, shape):
        def add(name, value, **options):
            return self.add_weight(
                name=name, shape=(2,), initializer=tf.keras.initializers.Constant(value), **options
            )

        self.moving = add("moving_mean", kf.rank(), trainable=False)
        self.queue = add("queue", kf.rank(), trainable=False)
        self.constant = add("constant", 0.1, trainable=False)
        self.count = add("count", kf.rank(), trainable=False, dtype="int64")
        self.trained = add("trained", kf.rank())

    def call(self, inputs):
        return inputs


def case_moving_statistics_are_averaged():
    model = tf.keras.Sequential(
        [
            layers.Input((3,), batch_size=2),
            layers.BatchNormalization(),
            Moving(),
            tf.keras.Sequential([layers.BatchNormalization(trainable=False)]),
            kf.layers.SyncBatchNormalization(),
            layers.Dropout(0.5),
            layers.Reshape((3, 1)),
            layers.SimpleRNN(2, stateful=True),
        ]
    )
    model.compile("sgd", "mse", metrics=["mae"])
    plain, own, nested, synchronized = model.layers[:4]
    rank = kf.rank()
    for layer in (plain, nested.layers[-1], synchronized):
        layer.moving_mean.assign([0.0, rank, rank**2])
    frozen = training.values_of([nested.layers[-1].gamma])
    constant = training.values_of([own.constant])
    states = [v for v in model.layers[-1].variables if "state" in v.name]
    for state in states:
        state.assign(tf.fill(state.shape, tf.cast(rank, state.dtype)))
    before = operations_done()
    average_statistics(model)
    assert operations_done() - before == 2
    for layer in (plain, nested.layers[-1]):
        np.testing.assert_array_equal(training.values_of([layer.moving_mean])[0], [0, 1.5, 3.5])
    np.testing.assert_array_equal(training.values_of([own.moving])[0], [1.5, 1.5])
    np.testing.assert_array_equal(training.values_of([own.constant]), constant)
    for untouched in (own.count, own.queue, own.trained, *states):
        assert np.all(training.values_of([untouched])[0] == rank), untouched.name
    assert np.all(training.values_of([synchronized.moving_mean])[0] == [0, rank, rank**2])
    np.testing.assert_array_equal(training.values_of([nested.layers[-1].gamma]), frozen)


def case_what_is_not_known_to_be_a_mean_stays_each_peers_own():
    model = tf.keras.Sequential([layers.Input((2,)), Moving(name="mine")])
    with logged("kungfu_tf") as lines:
        for _ in range(2):
            average_statistics(model)
    assert len(lines) == kf.is_root(), lines
    if kf.is_root():
        [line] = lines
        assert "queue" in line and "of layer 'mine'" in line and "combine(variable, how)" in line
        assert "constant" not in line  # which all have
    kf.variables.combine(model.layers[-1].queue, "own")
    with logged("kungfu_tf") as lines:
        average_statistics(tf.keras.Sequential([model]))
    assert lines == []
    assert np.all(training.values_of([model.layers[-1].queue])[0] == kf.rank())


@each(how=["mean", "sum", "root"])
def case_the_program_says_what_a_variable_is(how):
    class Layer(layers.Layer):
        def build(self, shape):
            self.state = self.add_weight(shape=(), initializer="ones", trainable=False)
            kf.variables.combine(self.state, how)

        def call(self, x, training=False):
            if training:
                self.state.assign(self.state + kf.rank() + 1)
            return x

    model = keras.Sequential([layers.Input((6,)), Layer(), layers.Dense(1)])
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.01)), "mse")
    x, y = (part[kf.rank() :: kf.size()] for part in training.samples(4 * 6))
    seen = []

    class Sees(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(float(training.values_of([model.layers[0].state])[0]))

    with logged("kungfu_tf") as lines:
        model.fit(x, y, 3, epochs=2, verbose=0, callbacks=[Sees()])  # two steps an epoch
    expected = {"mean": [6, 11], "sum": [21, 41], "root": [3, 5]}
    assert seen == expected[how], seen
    assert lines == []


def case_what_cannot_be_combined():
    count = tf.Variable(0)
    assert "not 'max'" in raised_by(ValueError, kf.variables.combine, count, "max")
    assert "a mean of int32" in raised_by(ValueError, kf.variables.combine, count, "mean")
    kf.variables.combine(count, "sum")


def case_without_moving_statistics_nothing_is_exchanged():
    before = operations_done()
    model = tf.keras.Sequential([layers.Input((3,)), kf.layers.SyncBatchNormalization()])
    average_statistics(model)
    assert operations_done() == before


class SeesStatistics(keras.callbacks.Callback):
    """The moving means of the model, after each batch, as callbacks of the user see them."""

    def __init__(self):
        super().__init__()
        self.means = []

    def on_train_batch_end(self, batch, logs=None):
        (moving_mean,) = training.values_of([self.model.layers[-1].moving_mean])
        self.means.append(moving_mean)


def keras_checkpoint(folder, freq):
    path = str(Path(folder, "{batch:02d}.weights.h5"))
    return keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=freq)


@each(who=["root", "all"], steps=[1, 2])
@exhaustive(who=["root"], steps=[2])
@exhaustive(who=["all"], steps=[1])
def case_a_save_in_the_middle_of_an_epoch_has_those_of_all(who, steps):
    model = keras.Sequential([layers.Input((6,)), layers.Dense(2), layers.BatchNormalization()])
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.01))
    model.compile(optimizer, "mse", steps_per_execution=steps)
    x, y = (part[kf.rank() :: kf.size()] for part in training.samples(4 * 12))
    sees = SeesStatistics()
    with tempfile.TemporaryDirectory() as folder:
        saver = [keras_checkpoint(folder, 4)] if who == "all" or kf.is_root() else []
        model.fit(x, y[:, :1] * np.ones(2), 2, verbose=0, callbacks=[*saver, sees])
        found = sorted(file.name for file in Path(folder).iterdir())
        # Keras 3 before 3.11 numbers an execution by its first step; later versions by its last.
        version = training.keras_version()
        numbers = range(1 if (3, 0) <= version < (3, 11) else steps, 7, steps)
        # Before 3.14 ModelCheckpoint takes the first execution for one step.
        seen = range(1 if (3, 0) <= version < (3, 14) else steps, 7, steps)
        saved_after = next(i for i, number in enumerate(seen) if number >= 4)
        name = f"{numbers[saved_after]:02d}.weights.h5"
        assert found == ([name] if kf.is_root() else []), found
        after = [bool(kf.ops.consensus(mean)) for mean in sees.means]
        assert after == [i == saved_after for i in range(6 // steps)], after
        if kf.is_root():
            model.load_weights(Path(folder, found[0]))
            (saved,) = training.values_of([model.layers[-1].moving_mean])
            np.testing.assert_array_equal(saved, sees.means[saved_after])


def saves_noted(callback):
    """The callback, which counts how often it saves."""
    name = next(n for n in ("_backup", "_save_model") if hasattr(callback, n))
    save, callback.times = getattr(callback, name), 0

    def count(*args, **kwargs):
        callback.times += 1
        return save(*args, **kwargs)

    setattr(callback, name, count)
    return callback


class SeesSaves(SeesStatistics):
    """Also whether the saver before it has saved after the batch."""

    def __init__(self, saver):
        super().__init__()
        self.saver = saver
        self.times = [0]

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        self.times.append(self.saver.times)


@each(saver=["checkpoint", "backup"], steps=[1, 2])
@exhaustive(saver=["checkpoint"], steps=[2])
@exhaustive(saver=["backup"], steps=[1])
def case_whoever_saves_and_whenever_it_has_those_of_all(saver, steps):
    """In two calls of `fit`, too: Keras' callbacks count on from one to the next."""
    model = keras.Sequential([layers.Input((6,)), layers.Dense(2), layers.BatchNormalization()])
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.01))
    model.compile(optimizer, "mse", steps_per_execution=steps)
    x, y = (part[kf.rank() :: kf.size()] for part in training.samples(4 * 12))
    with tempfile.TemporaryDirectory() as folder:
        backup = keras.callbacks.BackupAndRestore(folder, save_freq=5)
        made = keras_checkpoint(folder, 5) if saver == "checkpoint" else backup
        sees = SeesSaves(saves_noted(made))
        for _ in range(2):
            fit = {"epochs": 2, "verbose": 0, "shuffle": False, "callbacks": [made, sees]}
            model.fit(x, y[:, :1] * np.ones(2), 2, **fit)
    saved = kf.ops.broadcast(np.diff(sees.times), name=f"saved/{saver}/{steps}").numpy() > 0
    assert saved.any()
    after = [bool(kf.ops.consensus(mean)) for mean in sees.means]
    assert after == saved.tolist(), (after, saved)
