"""Callbacks of `fit`: all see the same and stop together; rank 0 writes and prints."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile

import numpy as np
import training
from fits import Seen, distributed, keras, mine, model_of, same_on_all, samples
from harness import each, exhaustive
from support import logged, raised_by

import kungfu_tf as kf
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]
Callback = keras.callbacks.Callback


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


class ChangesAtEnd(Callback):
    """Sets weights when training has ended."""

    def on_train_end(self, logs=None):
        self.model.set_weights([weight + 1 for weight in self.model.get_weights()])


@each(optimizer=["SynchronousSGDOptimizer", "PairAveragingOptimizer"])
def case_weights_that_change_at_the_end_on_one_peer_are_seen(optimizer):
    def fit(callbacks, **options):
        wrapped = getattr(kf.optimizers, optimizer)(keras.optimizers.SGD(0.1))
        arguments = {"epochs": 1, "verbose": 0, "callbacks": callbacks, **options}
        return model_of(wrapped, seed=5 + kf.rank()).fit(*mine(samples(24)), 4, **arguments)

    mine_alone = [ChangesAtEnd()] if kf.rank() == 1 else []
    text = raised_by(kf.errors.DivergenceError, fit, mine_alone)
    assert "on rank 1" in text and "after the callbacks' on_train_end" in text, text
    fit([ChangesAtEnd()])
    fit([*mine_alone, kf.callbacks.BroadcastGlobalVariablesCallback(check_every=None)])
    if generations.packages()[0].generation == 3:  # Keras 2 wants epochs
        fit([], epochs=0)


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


class StopsAtTheBeginning(Stops):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.stop_training |= kf.rank() == 1 and epoch == 1


STOPS = {
    "at the end of epoch 2": (lambda: Stops(1), 8),
    "at the beginning of epoch 2": (lambda: StopsAtTheBeginning(1), 5),
    "after batch 1 of epoch 2": (lambda: StopsAtOnce(1, 1), 6),
}


@each(when=["at the end of epoch 2", "at the beginning of epoch 2", "after batch 1 of epoch 2"])
@exhaustive(when=["at the end of epoch 2", "after batch 1 of epoch 2"])
def case_a_peer_that_stops_stops_all(when):
    """Also if only one peer has the callback that does."""
    make, steps = STOPS[when]
    stops = make()
    callbacks = [stops] if kf.rank() == 1 else []
    optimizer = distributed()
    model = model_of(optimizer)
    with logged("kungfu_tf") as lines:
        model.fit(*mine(samples(24)), 2, epochs=4, verbose=0, callbacks=callbacks)
    assert training.completed(optimizer) == [steps]
    assert same_on_all(training.digest(training.values_of(model.weights)) % 1000)
    told = [line for line in lines if when in line and "rank 1 (127.0.0.1:" in line]
    assert len(told) == (kf.rank() == 0), lines


def case_terminate_on_nan():
    """Of one peer's samples: all peers stop after the same batch, and rank 0 says whose it was.

    It calls the batch what Keras calls it.
    """
    x, y = mine(samples(24))
    if kf.rank() == 2:
        x[2] = np.nan
    optimizer = distributed()
    with logged("kungfu_tf") as lines, contextlib.redirect_stdout(io.StringIO()) as printed:
        callbacks = [keras.callbacks.TerminateOnNaN()]
        model_of(optimizer).fit(x, y, 2, epochs=4, shuffle=False, verbose=0, callbacks=callbacks)
    assert training.completed(optimizer) == [2]
    if kf.rank() == 0:
        [line] = lines
        assert "after batch 1 of epoch 1" in line
        assert "rank 2" in line
    if kf.rank() == 2:
        assert "Batch 1: " in printed.getvalue()


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
    package = generations.package_of(model_of("sgd"))
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
