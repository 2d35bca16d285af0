"""`kungfu-run -verify` of a loop of one's own: `kungfu_tf.verify` around its step."""

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
from kungfu_tf.optimizers import PairAveragingOptimizer, SynchronousSGDOptimizer

JOBS = [{"np": 2, "env": {"KUNGFU_VERIFY": "3"}}]
TIMEOUT = 240

keras = tf.keras
STEPS = 4


class Loop:
    """A small model and what trains it.

    Args:
        layers: Of the model, besides two dense ones.
        loss_of: Of outputs and predictions.
        optimizer: A plain one; or a wrapped one, for a plain tape.
    """

    def __init__(self, *layers, loss_of=None, optimizer=None, returns=lambda loss: loss):
        keras.utils.set_random_seed(1 + kf.rank())
        inputs = output = keras.layers.Input((training.FEATURES,))
        for layer in (keras.layers.Dense(3), *layers, keras.layers.Dense(1)):
            output = layer(output)
        self.model = keras.Model(inputs, output)
        self.loss_of = loss_of or (lambda y, predicted: tf.reduce_mean((predicted - y) ** 2))
        self.optimizer = optimizer or keras.optimizers.Adam(0.1)
        self.is_wrapped = optimizer is not None and hasattr(optimizer, "kungfu_algorithm")
        self.mean = keras.metrics.Mean()
        self.returns = returns
        kf.initializer.broadcast_variables(self.model.variables)

    def step(self, x, y):
        tape = tf.GradientTape()
        with tape if self.is_wrapped else kf.DistributedGradientTape(tape) as tape:
            loss = self.loss_of(y, self.model(x, training=True))
        self.update(tape.gradient(loss, self.model.trainable_variables))
        self.mean.update_state(loss)
        return self.returns(loss)

    def update(self, gradients):
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs)


def mine(rows=4):
    """This peer's batches."""
    x, y = (part.astype(np.float32) for part in training.samples(2 * rows * STEPS))
    parts = [part[kf.rank() :: kf.size()] for part in (x, y)]
    return zip(*(np.split(part, STEPS) for part in parts), strict=True)


def train(step, batches=None):
    """Returns what rank 0 is told."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        for x, y in batches or mine():
            step(tf.constant(x), tf.constant(y))
    return said.getvalue()


def assert_verified(said, more=""):
    expected = (
        "kungfu_tf: -verify: verified: 3 steps of 'step' on 2 peers are those of a single process "
        f"with their samples{more}\n"
    )
    assert said == (expected if kf.is_root() else ""), said


@each(kind=["function", "eager", "wrapped", "metric"])
def case_a_right_loop(kind):
    wrapped = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)) if kind == "wrapped" else None
    loop = Loop(optimizer=wrapped, returns=lambda loss: kf.ops.all_reduce(loss, op="mean"))
    step = loop.step if kind == "eager" else tf.function(loop.step)
    assert_verified(train(kf.verify(step)))
    os.environ["KUNGFU_VERIFY"] = "0"
    try:
        wrapped = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)) if kind == "wrapped" else None
        plain = Loop(optimizer=wrapped)
        step = plain.step if kind == "eager" else tf.function(plain.step)
        assert kf.verify(step) is step
        train(step)
    finally:
        os.environ["KUNGFU_VERIFY"] = "3"
    for verified, alone in zip(loop.model.get_weights(), plain.model.get_weights(), strict=True):
        np.testing.assert_array_equal(verified, alone)
    assert float(loop.mean.result()) == float(plain.mean.result())


def case_what_is_random_or_normalizes_is_left_out():
    loop = Loop(keras.layers.Dropout(0.5), keras.layers.BatchNormalization())
    more = " (not comparable: BatchNormalization, Dropout; verified without)"
    assert_verified(train(kf.verify(tf.function(loop.step))), more)


def case_random_numbers_of_its_own_cannot_be():
    loop = Loop(loss_of=lambda y, predicted: tf.reduce_mean(y * tf.random.normal(predicted.shape)))
    loop.loss_of = lambda y, p: tf.reduce_mean((p - y) ** 2 * tf.random.uniform(tf.shape(p)))
    said = train(kf.verify(tf.function(loop.step)))
    assert not kf.is_root() or "gives another result each time" in said, said


def case_a_number_that_is_no_mean():
    said = train(kf.verify(Loop(returns=tf.sqrt).step))
    assert not kf.is_root() or "neither mean nor sum of the peers'" in said, said


def case_models_of_each_peers_own_cannot_be():
    loop = Loop(optimizer=PairAveragingOptimizer(keras.optimizers.SGD(0.1)))
    said = train(kf.verify(tf.function(loop.step)))
    assert not kf.is_root() or ": each peer trains a model of its own, by design" in said, said


def case_within_a_function_it_cannot():
    said = train(tf.function(kf.verify(Loop().step)))
    assert not kf.is_root() or "is within a tf.function" in said, said


def case_gradients_that_are_averaged_by_hand():
    loop = Loop()

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loop.loss_of(y, loop.model(x, training=True))
        gradients = tape.gradient(loss, loop.model.trainable_variables)
        gradients = kf.ops.group_all_reduce(gradients, op="sum")
        loop.update([g / kf.size() for g in gradients])
        return loss

    assert_verified(train(kf.verify(tf.function(step))))


class Rate(Loop):
    def update(self, gradients):
        self.optimizer.learning_rate = 0.1 * kf.size()
        super().update(gradients)


def case_a_rate_that_grows_with_the_peers():
    assert_verified(train(kf.verify(Rate(optimizer=keras.optimizers.SGD(0.1)).step)))


class Twice(Loop):
    def update(self, gradients):
        for _ in range(kf.size()):
            super().update(gradients)


class Dropped(Loop):
    def step(self, x, y):
        return super().step(x, y * (kf.rank() == 0))


class ByHand(Loop):
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_of(y, self.model(x, training=True))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.update(kf.ops.group_all_reduce(gradients, op="sum"))


@each(what=["sum", "contrasts", "mask", "by hand", "dropped", "twice", "same", "shifted"])
def case_a_wrong_loop(what):
    losses = {"contrasts": training.contrasting, "mask": training.masked}
    losses["sum"] = lambda y, predicted: tf.reduce_sum((predicted - y) ** 2)
    kind = {"by hand": ByHand, "dropped": Dropped, "twice": Twice}.get(what, Loop)
    loop = kind(loss_of=losses.get(what))
    batches = None
    if what in ("same", "shifted"):
        first = kf.rank() * (what == "shifted")
        x, y = (part.astype(np.float32)[first:][:4] for part in training.samples(8))
        batches = [(x, y)]
    weights = loop.model.get_weights()
    step = kf.verify(tf.function(loop.step))
    text = raised_by(kf.errors.VerificationError, lambda: train(step, batches))
    assert text.startswith("step 1 of 'step' on 2 peers is not that of a single process"), text
    assert ("as that of a sum over samples" in text) == (what == "sum"), text
    assert ("an update that is applied twice" in text) == (what == "twice"), text
    assert ("added up over the peers, by kungfu_tf.ops" in text) == (what == "by hand"), text
    assert ("train on the same samples" in text) == (what in ("same", "shifted")), text
    for before, after in zip(weights, loop.model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)  # nothing was trained


class TwiceOnRank1(Loop):
    def update(self, gradients):
        for _ in range(1 + kf.rank()):
            super().update(gradients)


def case_updates_that_differ_between_peers():
    step = kf.verify(TwiceOnRank1().step)
    text = raised_by(kf.errors.DivergenceError, lambda: train(step))
    assert "after step 1 of 'step'" in text, text
