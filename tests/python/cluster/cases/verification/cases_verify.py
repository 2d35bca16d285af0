"""`kungfu-run -verify`: right programs are verified, and what is wrong in others is named."""

from __future__ import annotations

import contextlib
import io
import os

import numpy as np
import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.optimizers import PairAveragingOptimizer, SynchronousSGDOptimizer

JOBS = [{"np": 2, "env": {"KUNGFU_VERIFY": "3"}}]
TIMEOUT = 240

keras = tf.keras
STEPS = 4


def mine(samples=2 * 4 * STEPS):
    """This peer's inputs and outputs."""
    x, y = (part.astype(np.float32) for part in training.samples(samples))
    return x[kf.rank() :: kf.size()], y[kf.rank() :: kf.size()]


def model_of(*layers, cls=keras.Model, optimizer=None, loss="mse", **options):
    keras.utils.set_random_seed(1)
    inputs = output = keras.layers.Input((training.FEATURES,))
    for layer in (keras.layers.Dense(3), *layers, keras.layers.Dense(1)):
        output = layer(output)
    model = cls(inputs, output)
    model.compile(optimizer or SynchronousSGDOptimizer(keras.optimizers.Adam(0.1)), loss, **options)
    return model


def fit(model, data=None, batch_size=4, **options):
    """Returns what rank 0 is told."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        model.fit(*(data or mine()), batch_size, verbose=0, **options)
    return said.getvalue()


def assert_verified(said, steps=3):
    expected = f"-verify: verified: {steps} step{'s' * (steps > 1)} of" if kf.is_root() else ""
    assert expected in said and bool(said) == kf.is_root(), said
    assert not kf.is_root() or said.endswith("; all models predict the same\n"), said


@each(options=[{}, {"run_eagerly": True}, {"steps_per_execution": 2}, {"metrics": ["mae"]}])
def case_a_right_program(options):
    model = model_of(**options)
    assert_verified(fit(model), 2 if "steps_per_execution" in options else 3)
    os.environ["KUNGFU_VERIFY"] = "0"
    try:
        plain = model_of(**options)
        assert fit(plain) == ""
    finally:
        os.environ["KUNGFU_VERIFY"] = "3"
    for verified, not_verified in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(verified, not_verified)


def case_batches_of_different_sizes():
    assert_verified(fit(model_of(), batch_size=4 + kf.rank()))


def case_a_step_for_which_a_peer_has_no_batch_is_left_out():
    x, y = mine()
    samples = slice(0, None if kf.is_root() else 4)
    assert_verified(fit(model_of(), (x[samples], y[samples])), steps=1)


def case_what_is_random_or_normalizes_is_left_out():
    said = fit(model_of(keras.layers.Dropout(0.5), keras.layers.BatchNormalization()))
    assert_verified(said)
    left_out = "(not comparable: BatchNormalization, Dropout; verified without)"
    assert not kf.is_root() or left_out in said, said


class OwnStep(keras.Model):
    """A train step of one's own, of which `change` changes the gradients."""

    change = staticmethod(list)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
        weights = self.trainable_variables
        gradients = self.change(tape.gradient(loss, weights))
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"own": loss}


def case_a_train_step_of_ones_own():
    assert_verified(fit(model_of(cls=OwnStep)))


class Noise(keras.layers.Layer):
    def call(self, x):
        return x + tf.random.normal(tf.shape(x))


class OfFour(keras.layers.Layer):
    """Works on batches of 4 samples only."""

    def call(self, x):
        return tf.reshape(x, [4, 3])


@each(what=["random", "one size"])
def case_a_model_that_cannot_be_verified(what):
    said = fit(model_of(Noise() if what == "random" else OfFour()))
    why = "gives another result each time" if what == "random" else "the step fails in one process"
    assert not kf.is_root() or ("nothing is verified of" in said and why in said), said


def case_a_rate_that_grows_with_the_peers():
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 10)
    for rate in (0.01 * kf.size(), kf.callbacks.scale_learning_rate(schedule)):
        optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(rate))
        assert_verified(fit(model_of(optimizer=optimizer)))


class Remembers(keras.layers.Layer):
    """Predicts with what its peer has seen last."""

    def __init__(self):
        super().__init__()
        seen = tf.Variable(0.0)
        self.seen = lambda: seen  # Keras would take a variable for the layer's own

    def call(self, x, training=False):
        if training:
            self.seen().assign(tf.cast(x[0, 0], tf.float32))
        return x + (0.0 if training else tf.cast(self.seen(), x.dtype))


def case_predictions_that_differ_afterwards():
    text = raised_by(kf.errors.DivergenceError, lambda: fit(model_of(Remembers())))
    assert "after 3 steps" in text, text


def case_models_of_each_peers_own_cannot_be():
    said = fit(model_of(optimizer=PairAveragingOptimizer(keras.optimizers.SGD(0.1))))
    assert not kf.is_root() or ": each peer trains a model of its own" in said, said


class Activity(keras.layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x**2))
        return x


class Twice(Algorithm):
    keeps_equal = True

    def gradients(self, gradients, variables, *, step=None):
        return kf.ops.group_all_reduce(gradients, op="mean", name=f"{self.name}/mean")

    def after_update(self, variables):
        return [v.assign_sub(tf.fill(v.shape, 0.01)) for v in variables]


class Sum(Algorithm):
    keeps_equal = True

    def gradients(self, gradients, variables, *, step=None):
        return kf.ops.group_all_reduce(gradients, op="sum", name=f"{self.name}/sum")


def dropped_on_rank_1(gradients):
    return [g * (kf.rank() == 0) for g in gradients]


WRONG_STEPS = ["sum", "add_loss", "contrasts", "mask", "sum of gradients", "dropped", "twice"]
WRONG_DATA = ["same samples", "shifted samples"]


@each(what=WRONG_STEPS)
def case_a_wrong_step(what):
    assert_found(what)


@each(what=WRONG_DATA)
def case_wrong_data(what):
    assert_found(what)


def assert_found(what):
    data, options = mine(), {}
    if what == "sum":
        model = model_of(loss=lambda y, predicted: tf.reduce_sum((predicted - y) ** 2))
    elif what == "add_loss":
        model = model_of(Activity())
    elif what in ("contrasts", "mask"):
        model = model_of(loss=training.contrasting if what == "contrasts" else training.masked)
    elif what == "sum of gradients":
        model = model_of(optimizer=wrap(keras.optimizers.SGD(0.1), Sum))
    elif what == "twice":
        model = model_of(optimizer=wrap(keras.optimizers.SGD(0.1), Twice))
    elif what == "dropped":
        model = model_of(cls=OwnStep)
        model.change = dropped_on_rank_1
    else:
        model, options = model_of(), {"shuffle": False}
        first = kf.rank() if what == "shifted samples" else 0
        data = [part[first:][: len(data[0])] for part in training.samples(2 * 4 * STEPS)]
    weights = model.get_weights()
    text = raised_by(kf.errors.VerificationError, lambda: fit(model, data, **options))
    assert text.startswith("step 1 of ") and "that of a single process" in text, text
    assert ("2 times as large in one process" in text) == (what == "sum"), text
    assert ("2 times as large as in one" in text) == (what == "sum of gradients"), text
    assert ("has another value after" in text) == (what == "twice"), text
    assert ("train on the same samples" in text) == (what.endswith(" samples")), text
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)  # nothing was trained
