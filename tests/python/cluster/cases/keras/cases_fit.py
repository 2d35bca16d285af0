"""`fit` with a wrapped optimizer: its metrics are those of all peers, who call it alike."""

from __future__ import annotations

import threading
import time
import unittest.mock
import warnings
import weakref

import numpy as np
import tensorflow as tf
import training
from fits import Seen, distributed, keras, mine, model_of, same_on_all, samples
from harness import Skip, each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import peer

JOBS = [{"np": 3}]
Callback = keras.callbacks.Callback


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

    plain = model_of(keras.optimizers.SGD(0.0), metrics())
    single = fitted(plain, data, held_out, 6) if kf.is_root() else {}
    ours = mine(held_out) if validation == "sharded" else held_out
    run = fitted(model_of(distributed(0.0), metrics()), mine(data), ours, 2)
    assert set(run) == set(single) or not kf.is_root()
    for name, values in run.items():
        np.testing.assert_allclose(values, single.get(name, values), rtol=1e-12, err_msg=name)
        assert same_on_all(values)


def case_an_epoch_ends_without_waiting_for_its_iterator():
    """Which tf.data may keep for as long again; both that of training and that of validation."""
    ended_on, made = set(), tf.data.Dataset.__iter__

    def make(dataset):
        iterator = made(dataset)
        weakref.finalize(iterator, lambda: ended_on.add(threading.get_ident()))
        return iterator

    x, y = mine(samples())
    for validation in (None, (x, y)):
        with unittest.mock.patch.object(tf.data.Dataset, "__iter__", make):
            model_of(distributed()).fit(x, y, 2, epochs=2, verbose=0, validation_data=validation)
    deadline = time.monotonic() + 60
    while ended_on <= {threading.get_ident()} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not ended_on <= {threading.get_ident()}


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
        raise Skip("Keras 2 refuses such data by itself")
    x, y = samples(24)
    held_out = tf.data.Dataset.from_tensor_slices((x[:4], y[:4])).batch(4)
    held_out = kf.data.shard(held_out, remainder="keep") if validates else held_out
    model = model_of(distributed(), ["accuracy"])
    history = model.fit(*mine((x, y)), 4, verbose=0, validation_data=held_out).history
    assert same_on_all([history["val_loss"][0], history["val_accuracy"][0]])


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
    assert f"on {peer.names_of([2])}" in text
    assert f"on {peer.names_of([0, 1])}" in text
    assert "(127.0.0.1:" in peer.names_of([2])


@each(argument=["distributed method", "every"])
def case_methods_that_differ(argument):
    differs = kf.rank() == 2
    plain = keras.optimizers.SGD(0.1)
    if argument == "every":
        optimizer = kf.optimizers.LocalSGDOptimizer(plain, every=2 + differs)
    elif differs:
        optimizer = kf.optimizers.LocalSGDOptimizer(plain, every=2)
    else:
        optimizer = kf.optimizers.SynchronousAveragingOptimizer(plain)
    text = raised_by(ValueError, lambda: model_of(optimizer).fit(*samples(), 2, verbose=0))
    assert argument in text
    assert f"on {peer.names_of([2])}" in text
    assert f"on {peer.names_of([0, 1])}" in text


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
