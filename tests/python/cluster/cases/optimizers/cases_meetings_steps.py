"""Which steps count between two meetings: those without an update, too. And which are refused."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each
from meetings_in_numpy import (
    FIRST,
    METHODS,
    RATE,
    algorithm_of,
    batches,
    close,
    families,
    gradients,
    model_of,
    sgd,
    train,
)
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.optimizers import DiLoCoOptimizer, LocalSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]

MODES = ["eager", "function"]
STEPS = 12
keras = tf.keras


@each(method=["local", "diloco"], mode=MODES)
def case_steps_without_an_update_count(method, mode):
    """Each peer's loss scale skips other steps, and all meet after the same."""
    if not training.is_keras_3():
        raise Skip("its LossScaleOptimizer is another one: see the next case")
    optimizer = METHODS[method][0](keras.optimizers.SGD(RATE))
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)
    skipped = skips(scaled, method, mode, lambda loss: scaled.scale_loss(loss))
    assert int(generations.native(optimizer.iterations)) == STEPS - len(skipped)


@each(method=["local", "diloco"], mode=MODES)
def case_steps_without_an_update_count_in_keras_2(method, mode):
    if training.is_keras_3():
        raise Skip("Keras 2")
    for family in families():
        optimizer = METHODS[method][0](family.SGD(RATE))
        scaled = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=8.0)
        skips(scaled, method, mode, scaled.get_scaled_loss)


def skips(scaled, method, mode, scale_loss):
    """Trains while this peer skips steps. Returns which."""
    is_keras_3 = training.is_keras_3()
    model = model_of()
    variables = model.trainable_variables

    def step(x, y, factor):
        with tf.GradientTape() as tape:
            loss = scale_loss(tf.reduce_mean(tf.square(model(x, training=True) - y)))
        grads = [g * factor for g in tape.gradient(loss, variables)]
        if not is_keras_3:
            grads = scaled.get_unscaled_gradients(grads)
        scaled.apply_gradients(zip(grads, variables, strict=True))

    step = tf.function(step) if mode == "function" else step
    skipped = [[0], [3, 4, 5], [1, 11]]
    weights = np.broadcast_to(FIRST, [kf.size(), 4])
    simulation = METHODS[method][1]()
    before = operations_done()
    for number, (x, y) in enumerate(zip(*batches(STEPS), strict=True)):
        factor = np.inf if number in skipped[kf.rank()] else 1.0
        step(*map(tf.constant, (x[kf.rank()], y[kf.rank()], np.float64(factor))))
        moves = np.array([[number not in skipped[rank]] for rank in range(kf.size())])
        weights = weights - RATE * gradients(weights, x, y) * moves
        if simulation.meets_after(number):
            weights = simulation.meet(weights)
        close(training.flat_weights(model), weights[kf.rank()])
    assert operations_done() - before <= STEPS // 4 + 4  # the meetings, and what a trace agrees on
    return skipped[kf.rank()]


@each(method=["local", "diloco"])
def case_accumulated_gradients(method):
    """Steps count, not updates: the first meeting is in the middle of an update."""
    if not training.is_keras_3():
        raise Skip("Keras 3 accumulates gradients")
    optimizer = METHODS[method][0](keras.optimizers.SGD(RATE, gradient_accumulation_steps=3))
    model = train(optimizer, STEPS)
    weights = np.broadcast_to(FIRST, [kf.size(), 4])
    gathered = np.zeros([kf.size(), 4])
    simulation = METHODS[method][1]()
    for number, (x, y) in enumerate(zip(*batches(STEPS), strict=True)):
        gathered = gathered + gradients(weights, x, y)
        if number % 3 == 2:
            weights, gathered = weights - RATE * gathered / 3, 0 * gathered
        if simulation.meets_after(number):
            weights = simulation.meet(weights)
    close(training.flat_weights(model), weights[kf.rank()])


def case_a_loss_scale_around_several_optimizers_is_refused():
    if not training.is_keras_3() or not hasattr(keras.optimizers, "MultiOptimizer"):
        raise Skip("this Keras has no MultiOptimizer")
    model = model_of()
    parts = [keras.optimizers.SGD(RATE, gradient_accumulation_steps=2) for _ in range(2)]
    multi = keras.optimizers.MultiOptimizer(lambda v: parts[int("bias" in v.path)])
    multi.build(model.trainable_variables)
    scaled = keras.optimizers.LossScaleOptimizer(multi)
    step = training.step_of(model, LocalSGDOptimizer(scaled, every=2))
    x, y = (tf.constant(part[0, kf.rank()]) for part in batches(1))
    assert "several optimizers" in raised_by(errors.UnimplementedError, lambda: step(x, y))


def case_peers_at_different_steps_get_an_error():
    optimizer = LocalSGDOptimizer(sgd(), every=4)
    model = train(optimizer, 2)
    schedule = algorithm_of(optimizer).schedule
    schedule.steps.assign(2 + 4 * kf.rank())
    schedule.steps_at_meeting.assign(4 * kf.rank())
    step = training.step_of(model, optimizer)
    x, y = (tf.constant(part[0, kf.rank()]) for part in batches(1))
    step(x, y)
    raised_by(tf.errors.InvalidArgumentError, lambda: step(x, y))


def case_variables_that_come_later_are_refused():
    optimizer = DiLoCoOptimizer(sgd(), every=2)
    variables = [tf.Variable([1.0]), tf.Variable([2.0])]
    optimizer.build(variables)
    optimizer.apply_gradients([(tf.constant([1.0]), variables[0])])
    text = raised_by(
        errors.UnimplementedError,
        lambda: optimizer.apply_gradients([(tf.constant([1.0]), variables[1])]),
    )
    assert "an optimizer for each" in text


@each(method=["local", "diloco"], mode=MODES)
def case_steps_with_other_variables_are_refused(method, mode):
    """With two lists in turn, each second step, one of them would never be at a meeting."""
    optimizer = METHODS[method][0](sgd())
    variables = [tf.Variable([1.0]), tf.Variable([2.0])]
    if hasattr(optimizer, "build"):
        optimizer.build(variables)

    def step(*trained):
        optimizer.apply_gradients([(tf.ones_like(v), v) for v in trained])

    step = tf.function(step) if mode == "function" else step
    step(*variables)
    step(*variables)
    before = [v.numpy() for v in variables]
    text = raised_by(errors.UnimplementedError, lambda: step(variables[1]))
    assert "other variables" in text and "an optimizer for each" in text, text
    np.testing.assert_array_equal([v.numpy() for v in variables], before)
    step(*variables)


def case_a_session_with_two_lists_of_variables_is_refused():
    v1 = tf.compat.v1
    optimizer = LocalSGDOptimizer(v1.train.GradientDescentOptimizer(RATE), every=2)
    for _ in range(2):  # each graph has variables of its own
        with tf.Graph().as_default():
            one, two = (v1.get_variable(name, [], tf.float64) for name in ("one", "two"))
            optimizer.minimize(one**2, var_list=[one])
            minimize = functools.partial(optimizer.minimize, two**2, var_list=[two])
            text = raised_by(errors.UnimplementedError, minimize)
            assert "other variables" in text, text
