"""`fit` with a wrapped optimizer: its metrics, its callbacks and its end are those of all peers."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings

import numpy as np
import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import _keras
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 3}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras
Callback = keras.callbacks.Callback


def model_of(optimizer, metrics=(), seed=11):
    """Of a binary classification; the same on all peers if the seed is."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.layers.Input((training.FEATURES,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer, "binary_crossentropy", metrics=list(metrics))
    return model


def distributed(rate=0.1):
    return SynchronousSGDOptimizer(keras.optimizers.SGD(rate))


def samples(count=24):
    x, y = training.samples(count)
    return x, (y > 0).astype("float64")


def mine(data):
    return [part[kf.rank() :: kf.size()] for part in data]


def same_on_all(values) -> bool:
    return bool(kf.ops.consensus(np.asarray(values, np.float64)))


@each(validation=["sharded", "whole"])
def case_metrics_are_of_all_samples(validation):
    """Also those that no average of the peers' results would give. The model stands still."""
    data, held_out = samples(24), samples(17)

    def fitted(model, train, validate, size):
        history = model.fit(
            *train, batch_size=size, verbose=0, shuffle=False, validation_data=tuple(validate)
        )
        return history.history

    def metrics():
        return ["accuracy", keras.metrics.AUC(name="auc"), keras.metrics.Precision(name="p")]

    single = fitted(model_of(keras.optimizers.SGD(0.0), metrics()), data, held_out, 6)
    ours = mine(held_out) if validation == "sharded" else held_out
    run = fitted(model_of(distributed(0.0), metrics()), mine(data), ours, 2)
    assert set(run) == set(single)
    for name, values in single.items():
        np.testing.assert_allclose(run[name], values, rtol=1e-12, err_msg=name)
        assert same_on_all(run[name])


class Seen(Callback):
    """What the callbacks of this peer see, and where it trains."""

    def __init__(self):
        super().__init__()
        self.logs, self.batches = [], 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append({**logs, "rate": float(_keras.native(self.model.optimizer.learning_rate))})


def case_every_callback_sees_what_all_see():
    """Each peer validates on other samples, by which alone they would act differently."""
    x, y = samples(24)
    seen = Seen()
    flipped = np.roll(y, kf.rank(), axis=0)
    keras.utils.set_random_seed(5)
    callbacks = [
        seen,
        keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=0.02),
        keras.callbacks.EarlyStopping("val_loss", patience=3, min_delta=0.02),
    ]
    history = model_of(distributed(), ["accuracy"]).fit(
        *mine((x, y)), 4, epochs=30, verbose=0, validation_data=(x, flipped), callbacks=callbacks
    )
    assert 3 < len(seen.logs) < 30
    assert seen.logs[-1]["rate"] < 0.1
    for log in seen.logs:
        assert same_on_all([float(log[name]) for name in sorted(log)])
    assert history.history["loss"] == [float(log["loss"]) for log in seen.logs]


class Stops(Callback):
    """Stops on rank 1 only."""

    def __init__(self, epoch, batch=None):
        super().__init__()
        self.at, self.epoch = (epoch, batch), None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training |= kf.rank() == 1 and self.at == (epoch, None)


class StopsAtOnce(Stops):
    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training |= kf.rank() == 1 and self.at == (self.epoch, batch)


@contextlib.contextmanager
def logged():
    """The lines that we log."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("kungfu_tf")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


class StopsAtTheBeginning(Stops):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.stop_training |= kf.rank() == 1 and epoch == 1


STOPS = {
    "at the end of epoch 2": (lambda: Stops(1), 8),
    "at the beginning of epoch 2": (lambda: StopsAtTheBeginning(1), 5),
    "after batch 1 of epoch 2": (lambda: StopsAtOnce(1, 1), 6),
}


@each(when=["at the end of epoch 2", "at the beginning of epoch 2", "after batch 1 of epoch 2"])
def case_a_peer_that_stops_stops_all(when):
    """Also if only one peer has the callback that does."""
    make, steps = STOPS[when]
    stops = make()
    callbacks = [stops] if kf.rank() == 1 else []
    optimizer = distributed()
    model = model_of(optimizer)
    with logged() as lines:
        model.fit(*mine(samples(24)), 2, epochs=4, verbose=0, callbacks=callbacks)
    assert training.completed(optimizer) == [steps]
    assert same_on_all(training.digest(training.values_of(model.weights)) % 1000)
    told = [line for line in lines if when in line and "rank 1" in line]
    assert len(told) == (kf.rank() == 0), lines


def case_terminate_on_nan():
    """Of one peer's samples: all peers stop after the same batch, and rank 0 says whose it was.

    It calls the batch what Keras calls it.
    """
    x, y = mine(samples(24))
    if kf.rank() == 2:
        x[2] = np.nan
    optimizer = distributed()
    with logged() as lines, contextlib.redirect_stdout(io.StringIO()) as printed:
        callbacks = [keras.callbacks.TerminateOnNaN()]
        model_of(optimizer).fit(x, y, 2, epochs=4, shuffle=False, verbose=0, callbacks=callbacks)
    assert training.completed(optimizer) == [2]
    if kf.rank() == 0:
        [line] = lines
        assert "Batch 1: " in printed.getvalue()
        assert "after batch 1 of epoch 1" in line
        assert "rank 2" in line


class Orbax(getattr(keras.callbacks, "OrbaxCheckpoint", keras.callbacks.ModelCheckpoint)):
    """Keras' writer of that name, without the package that it needs."""

    def __init__(self, file):
        Callback.__init__(self)
        self.save_freq, self.file = "epoch", file

    def on_train_begin(self, logs=None):
        pass

    def on_train_batch_end(self, batch, logs=None):
        pass

    def on_epoch_end(self, epoch, logs=None):
        with open(self.file, "w"):
            pass

    def on_train_end(self, logs=None):
        pass


def case_files_are_written_by_rank_0():
    package = _keras.package_of(model_of("sgd"))
    with tempfile.TemporaryDirectory() as folder:
        suffix = "m.keras" if package.generation == 3 else "m.h5"
        callbacks = [
            keras.callbacks.ModelCheckpoint(os.path.join(folder, suffix)),
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
            keras.callbacks.BackupAndRestore(os.path.join(folder, "backup"), **KEEP),
            keras.callbacks.TensorBoard(os.path.join(folder, "events")),
            Orbax(os.path.join(folder, "orbax")),
        ]
        model_of(distributed()).fit(*mine(samples()), verbose=0, callbacks=callbacks)
        written = sorted(os.listdir(folder))
    assert written == (
        sorted([suffix, "log.csv", "backup", "events", "orbax"]) if kf.rank() == 0 else []
    )


KEEP = {"delete_checkpoint": False}


class Fails(Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise InterruptedError


def case_backup_and_restore():
    """Rank 0 alone has the file; all go on at its epoch, with its weights."""
    with tempfile.TemporaryDirectory() as folder:
        data = mine(samples())

        def fit(model, *callbacks):
            backup = keras.callbacks.BackupAndRestore(folder, **KEEP)
            return model.fit(*data, 4, epochs=5, verbose=0, callbacks=[backup, *callbacks])

        raised_by(InterruptedError, lambda: fit(model_of(distributed()), Fails()))
        seen = Seen()
        model = model_of(distributed(), seed=kf.rank())
        fit(model, seen)
    assert len(seen.logs) == 3  # of 5: two were done before
    assert same_on_all(training.digest(training.values_of(model.weights)) % 1000)
    assert same_on_all([log["loss"] for log in seen.logs])


class Refuses(Callback):
    """Ends a `fit` before its first step."""

    def on_train_begin(self, logs=None):
        raise InterruptedError


class FitsAgain(Callback):
    """Trains the same model, on even data, within the `fit` of uneven data."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            self.model.fit(*mine(samples(6)), 2, verbose=0)


@each(what=["refused before", "within", "own step"])
def case_a_fit_leaves_the_model_as_it_was(what):
    """Whatever comes between: the next step is as if nothing had been."""
    optimizer = distributed()
    model = model_of(optimizer)
    x, y = (part[: 4 + kf.rank()] for part in mine(samples()))
    callbacks = []
    if what == "refused before":
        raised_by(InterruptedError, lambda: model.fit(x, y, 2, verbose=0, callbacks=[Refuses()]))
    elif what == "within":
        callbacks = [FitsAgain()]
    else:
        plain, called = model.train_step, []
        model.train_step = lambda data: called.append(data) or plain(data)
    model.fit(x, y, 2, epochs=2, verbose=0, callbacks=callbacks)
    assert training.completed(optimizer) == [6 + (what == "within")]
    assert same_on_all(training.digest(training.values_of(model.trainable_variables)) % 1000)
    if what == "own step":
        assert called
        assert "train_step" in vars(model)
    else:
        assert "train_step" not in vars(model)


@each(validates=[0, 1])
def case_a_peer_without_validation_data(validates):
    """Of Keras 3; Keras 2 refuses it on the peer where it is, by name."""
    if not training.is_keras_3():
        return
    x, y = samples(24)
    held_out = tf.data.Dataset.from_tensor_slices((x[:4], y[:4])).batch(4)
    held_out = kf.data.shard(held_out, remainder="keep") if validates else held_out
    model = model_of(distributed(), ["accuracy"])
    history = model.fit(*mine((x, y)), 4, verbose=0, validation_data=held_out).history
    assert same_on_all([history["val_loss"][0], history["val_accuracy"][0]])


@each(who=["root", "all"])
def case_progress_is_printed_by_rank_0(who):
    os.environ["KUNGFU_VERBOSE"] = who
    try:
        model, (x, y) = model_of(distributed()), mine(samples())
        for call in (model.fit, model.evaluate, lambda x, _, **kw: model.predict(x, **kw)):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                call(x, y, verbose=1)
            assert bool(printed.getvalue()) == (kf.rank() == 0 or who == "all")
    finally:
        del os.environ["KUNGFU_VERBOSE"]


@each(argument=["epochs", "steps_per_epoch", "validation_data", "initial_epoch", "check_every"])
def case_arguments_that_differ(argument):
    """They would let some peers wait for others."""
    data = samples()
    differs = kf.rank() == 2
    value = {
        "epochs": 2 + differs,
        "steps_per_epoch": 4 + differs,
        "validation_data": data if differs else None,
        "initial_epoch": int(differs),
        "check_every": [kf.callbacks.BroadcastGlobalVariablesCallback(check_every=2)] * differs,
    }[argument]
    model = model_of(distributed())
    options = {"verbose": 0, "callbacks" if argument == "check_every" else argument: value}
    text = raised_by(ValueError, lambda: model.fit(*data, 2, **options))
    assert argument in text
    assert "on rank 2" in text
    assert "on rank 0, 1" in text


def case_nothing_else_is_needed():
    """Without any callback of ours the peers start equal, and stay so."""
    model = model_of(distributed(), seed=kf.rank())
    model.fit(*mine(samples()), 2, epochs=2, verbose=0)
    assert same_on_all(training.digest(training.values_of(model.weights)) % 1000)


class EvaluatesOnRoot(Callback):
    def on_epoch_end(self, epoch, logs=None):
        if kf.rank() == 0:
            self.model.evaluate(*samples(), verbose=0)


def case_an_evaluation_of_ones_own():
    """Outside `fit`, and in a callback, one peer may evaluate alone."""
    model = model_of(distributed(), ["accuracy"])
    model.fit(*mine(samples()), 2, verbose=0, callbacks=[EvaluatesOnRoot()])
    if kf.rank() == 0:
        assert len(model.evaluate(*samples(), verbose=0)) == 2
    kf.barrier()


class OwnStep(keras.Model):
    """Averages by a tape, and returns what no metric has computed."""

    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(1)

    def call(self, x):
        return self.last(x)

    def train_step(self, data):
        x, y = data
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"mine": tf.constant(kf.rank(), tf.float64)}


class HoldsOptimizer(OwnStep):
    """Each peer has weights of its own at first."""

    def __init__(self, where):
        keras.utils.set_random_seed(kf.rank())
        super().__init__()
        optimizer = distributed()
        self.optimizer_to_use = lambda: optimizer
        if where == "list":
            self.all = [optimizer]
        elif where == "dict":
            self.all = {"one": [optimizer]}
        elif where == "model inside":
            self.last = keras.Sequential([self.last])
            self.last.compile(optimizer)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer_to_use().apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


@each(where=["list", "dict", "model inside", "nowhere"])
def case_a_wrapped_optimizer_is_found(where):
    """Where it is not, and exchanges, it warns."""
    model = HoldsOptimizer(where)
    model.compile()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(*mine(samples()), 2, verbose=0)
    told = [str(warning.message) for warning in told if "wrapped" in str(warning.message)]
    assert same_on_all(training.digest(training.values_of(model.weights)) % 1000) == (
        where != "nowhere"
    )
    assert len(told) == (where == "nowhere" and kf.is_root()), told


@each(callback=["metric average", "broadcast"])
def case_logs_of_a_train_step_of_ones_own(callback):
    model = OwnStep()
    model.compile("sgd")
    seen = Seen()
    ours = {
        "metric average": kf.callbacks.MetricAverageCallback,
        "broadcast": kf.callbacks.BroadcastGlobalVariablesCallback,
    }[callback]()
    model.fit(*mine(samples()), 2, verbose=0, callbacks=[seen, ours])
    assert seen.logs[0]["mine"] == 1.0
