"""Losses that are sums over samples: of a tape they are refused, of a layer there is a warning."""

from __future__ import annotations

import warnings

import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

tf.keras.backend.set_floatx("float64")

keras = tf.keras


class OwnStep(keras.Model):
    """Its train step gives the tape what `target` makes of the losses of the samples."""

    target = staticmethod(tf.identity)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            losses = tf.reduce_mean((self(x, training=True) - y) ** 2, axis=-1)
            target = self.target(losses)
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(target, weights), weights, strict=True))
        return {"own": tf.reduce_mean(losses)}


def model_of(cls=keras.Model, *layers):
    keras.utils.set_random_seed(1)
    inputs = output = keras.layers.Input((training.FEATURES,))
    for layer in (*layers, keras.layers.Dense(1)):
        output = layer(output)
    return cls(inputs, output)


def mine():
    return training.mine(training.epoch())


@each(eager=[False, True])
def case_a_train_step_whose_loss_is_no_scalar(eager):
    model = model_of(OwnStep)
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), run_eagerly=eager)
    text = raised_by(Exception, lambda: model.fit(mine(), verbose=0))  # AutoGraph's of Keras 2
    assert "whose elements a tape adds up" in text and "tf.reduce_mean(loss)" in text, text


def case_one_element_is_a_scalar():
    model = model_of(OwnStep)
    model.target = lambda losses: tf.reshape(tf.reduce_mean(losses), [1])
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)))
    model.fit(mine(), verbose=0)


def case_a_loop_of_ones_own():
    weight = tf.Variable([1.0, 2.0])
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))

    def step(wrap, **weights):
        with wrap(tf.GradientTape()) as tape:
            losses = weight * 3
        optimizer.apply_gradients([(tape.gradient(losses, weight, **weights), weight)])

    text = raised_by(ValueError, lambda: step(lambda tape: tape))
    assert "a target of shape (2,)" in text, text
    raised_by(ValueError, lambda: step(kf.DistributedGradientTape))
    step(lambda tape: tape, output_gradients=tf.constant([0.5, 0.5]))
    assert kf.ops.consensus(weight)


def case_a_derivative_of_what_is_no_loss():
    """As a gradient penalty takes it: only what an optimizer gets is asked for."""
    model = model_of()
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    x = tf.ones([4, training.FEATURES])
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = model(x)
        penalty = tf.reduce_mean(inner.gradient(y, x) ** 2)
    weights = model.trainable_variables
    gradients = [
        tf.zeros_like(w) if g is None else g
        for g, w in zip(tape.gradient(penalty, weights), weights, strict=True)
    ]
    optimizer.apply_gradients(zip(gradients, weights, strict=True))


class Activity(keras.layers.Layer):
    def __init__(self, reduce):
        super().__init__()
        self.reduce = reduce

    def call(self, x):
        self.add_loss(0.01 * self.reduce(x**2))
        return x


@each(name=["reduce_sum", "reduce_mean"])
def case_a_layer_that_adds_a_loss(name):
    reduce = getattr(tf, name)
    model = model_of(keras.Model, Activity(reduce), Activity(reduce))
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), "mse")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(mine(), verbose=0)
    told = [str(one.message) for one in caught if "add_loss" in str(one.message)]
    assert len(told) == (name == "reduce_sum" and kf.rank() == 0), told
