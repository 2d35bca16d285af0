"""`fit` where each peer trains a model of its own: what is validated, saved and left is the mean.

Peers have different numbers of batches.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import (
    AdaptiveSGDOptimizer,
    PairAveragingOptimizer,
    SynchronousAveragingOptimizer,
)
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras

WRAP = {
    "sma": lambda optimizer: SynchronousAveragingOptimizer(optimizer, alpha=0.2),
    "central": lambda optimizer: SynchronousAveragingOptimizer(optimizer, momentum=0.5),
    "adaptive": lambda optimizer: AdaptiveSGDOptimizer(optimizer, SWITCH, alpha=0.2),
    "pair": PairAveragingOptimizer,
    "alone": lambda optimizer: kf.optimizers.wrap(optimizer, kf.optimizers.Algorithm),
}
NAMES = ["sma", "adaptive", "pair"]
SWITCH = 10  # in the second epoch


class Watch(keras.callbacks.Callback):
    """The weights when callbacks see them: while an epoch runs, at its end, and at the very end."""

    def __init__(self):
        super().__init__()
        self.in_steps, self.own, self.seen = [], [], []

    def weights(self):
        return training.flat_weights(self.model)

    def on_train_batch_end(self, batch, logs=None):
        self.in_steps.append(self.weights())

    def on_epoch_end(self, epoch, logs=None):
        self.own.append(self.in_steps[-1])
        self.seen.append(self.weights())

    def on_train_end(self, logs=None):
        self.seen.append(self.weights())


def compiled(method, momentum=0.5, regularizer=None):
    model = training.dense_model(regularizer=regularizer)
    model.compile(WRAP[method](keras.optimizers.SGD(0.05, momentum=momentum)), "mse")
    return model


def mine():
    """3, 5 or 7 batches of 4."""
    count = 4 * (3 + 2 * kf.rank())
    return [part[kf.rank() :: kf.size()][:count] for part in training.samples(96)]


def fit(method, momentum=0.5, regularizer=None, **options):
    """Returns the model, what was seen, and the history."""
    model, watch = compiled(method, momentum, regularizer), Watch()
    callbacks = [*options.pop("callbacks", []), watch]
    history = model.fit(*mine(), batch_size=4, verbose=0, callbacks=callbacks, **options)
    return model, watch, history.history


@each(method=NAMES)
def case_callbacks_see_the_average_and_the_peers_go_on_from_their_own(method):
    model, watch, _ = fit(method, epochs=3)
    own = kf.ops.all_gather(np.array(watch.own)).numpy()
    assert np.abs(own - own[0]).max() > 1e-6  # they do differ
    for seen, models in zip(watch.seen, np.swapaxes(own, 0, 1), strict=False):
        np.testing.assert_allclose(seen, models.mean(axis=0), rtol=1e-12, atol=1e-14)
    for seen in watch.seen:
        assert kf.ops.consensus(seen)
    np.testing.assert_array_equal(watch.seen[-1], watch.weights())  # it stays when fit has ended
    steps = 3 * (3 + 2 * kf.rank()) if method == "pair" else 3 * 7
    assert len(watch.in_steps) == steps
    assert int(generations.native(model.optimizer.iterations)) == steps


@each(method=["sma", "alone"])
def case_who_has_no_more_data_only_follows_the_average(method):
    """Its own loss, that of a regularizer for instance, moves nothing."""
    _, watch, _ = fit(method, momentum=0.0, regularizer=keras.regularizers.L2(0.1), epochs=1)
    models = kf.ops.all_gather(np.stack(watch.in_steps)).numpy()
    before, after = models[:, 2:-1], models[:, 3:]  # rank 0 has had its three batches
    drawn = 0.2 if method == "sma" else 0.0
    follows = before[0] + drawn * (before.mean(axis=0) - before[0])
    np.testing.assert_allclose(after[0], follows, rtol=1e-12)
    assert np.abs(after[2] - before[2]).max() > 1e-3


@each(method=NAMES)
@exhaustive(method=["sma", "pair"])
def case_validation_is_of_the_average(method):
    held_out = training.samples(17)
    _, watch, history = fit(method, epochs=2, validation_data=held_out, shuffle=False)
    model = training.dense_model()
    model.compile("sgd", "mse")
    for seen, loss in zip(watch.seen, history["val_loss"], strict=False):
        shapes = [w.shape for w in model.get_weights()]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(seen, ends[:-1])
        model.set_weights([p.reshape(shape) for p, shape in zip(parts, shapes, strict=True)])
        expected = model.evaluate(*held_out, verbose=0)
        np.testing.assert_allclose(loss, expected, rtol=1e-12)
        assert kf.ops.consensus(np.float64(loss))


@each(method=NAMES)
@exhaustive(method=["pair", "adaptive"])
def case_what_is_saved_is_the_average(method):
    path = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{method}.keras")
    saver = keras.callbacks.ModelCheckpoint(path)
    _, watch, _ = fit(method, epochs=1, callbacks=[saver])
    if kf.is_root():
        weights = keras.models.load_model(path).get_weights()
        os.unlink(path)
        np.testing.assert_array_equal(np.concatenate([w.ravel() for w in weights]), watch.seen[0])
    kf.barrier()


def case_a_save_in_the_middle_of_an_epoch_is_of_the_average():
    path = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}.weights.h5")
    saver = keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=5)
    model, watch, _ = fit("sma", callbacks=[saver])
    steps = watch.in_steps
    assert [bool(kf.ops.consensus(weights)) for weights in steps] == [i == 4 for i in range(7)]
    if kf.is_root():
        model.load_weights(path)
        os.unlink(path)
        np.testing.assert_array_equal(training.flat_weights(model), steps[4])


def case_peers_are_equal_from_the_switch_on():
    _, watch, _ = fit("adaptive", epochs=2)
    equal = [bool(kf.ops.consensus(weights)) for weights in watch.in_steps]
    assert equal == [step >= SWITCH - 1 for step in range(2 * 7)], equal


def restart(model):
    """Another training of the same model: weights of 5, which no step changes."""
    model.set_weights([np.full_like(w, 5.0) for w in model.get_weights()])
    model.optimizer.learning_rate = 0.0
    model.fit(*mine(), batch_size=4, verbose=0)
    np.testing.assert_allclose(training.flat_weights(model), 5.0, rtol=1e-12)


@each(method=["central", "pair"])
def case_nothing_of_a_training_gets_into_the_next(method):
    model, _, _ = fit(method, momentum=0.0)
    restart(model)


class DiskFullError(Exception):
    """What no library raises."""


class Raises(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise DiskFullError("no space left")


def case_an_error_of_one_ends_all_that_do_not_wait_for_it():
    """The others are in an epoch of a million batches."""
    model = compiled("pair", momentum=0.0)
    if kf.rank() == 1:
        raised_by(
            DiskFullError,
            lambda: model.fit(*mine(), batch_size=4, verbose=0, callbacks=[Raises()]),
        )
    else:
        data = tf.data.Dataset.from_tensor_slices(tuple(mine())).batch(4).repeat(10**6)
        text = raised_by(tf.errors.OpError, lambda: model.fit(data, verbose=0))
        assert "rank 1" in text and "no space left" in text, text
    restart(model)


@each(method=NAMES)
@exhaustive(method=["sma"])
def case_the_best_weights_that_a_callback_restores_stay(method):
    stop = keras.callbacks.EarlyStopping(
        "loss", patience=1, mode="max", min_delta=1e9, restore_best_weights=True
    )
    _, watch, history = fit(method, epochs=5, callbacks=[stop])
    assert len(history["loss"]) < 5
    np.testing.assert_array_equal(watch.weights(), watch.seen[0])
    assert kf.ops.consensus(watch.weights())


class StopAtFirstBatch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if kf.rank() == 1:
            self.model.stop_training = True


def case_who_stops_in_an_asynchronous_epoch_stops_all_at_its_end():
    _, watch, history = fit("pair", epochs=3, callbacks=[StopAtFirstBatch()])
    assert len(history["loss"]) == 1
    assert len(watch.in_steps) == (1 if kf.rank() == 1 else 3 + 2 * kf.rank())


def case_one_alone_of_two_fits_goes_on_from_the_average():
    """The second begins where the first has ended."""
    model, watch, _ = fit("pair", epochs=1)
    before = watch.weights()
    again = Watch()

    class First(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 0:
                self.first = training.flat_weights(self.model)

    first = First()
    model.fit(*training.samples(8), batch_size=4, verbose=0, callbacks=[first, again])
    np.testing.assert_array_equal(first.first, before)
