"""Several steps for one update, of optimizers of Keras 2: only the last of them sends something."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 2}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras

STEPS = 3
FAMILIES = ["new", "legacy"]


def sgd(family, rate, **options):
    if training.is_keras_3():
        raise Skip("its optimizers add gradients up by themselves")
    package = keras.optimizers.legacy if family == "legacy" else keras.optimizers
    return SynchronousSGDOptimizer(package.SGD(rate), steps_per_update=STEPS, **options)


@each(family=FAMILIES, function=[False, True], op=["mean", "sum"])
def case_a_loop(family, function, op):
    """What a peer adds up differs from step to step, and from peer to peer."""
    optimizer = sgd(family, 1.0, op=op)
    weight, rows = tf.Variable([0.0, 0.0]), tf.Variable(tf.zeros([4, 1]))

    def step(factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight) * factor + tf.reduce_sum(tf.gather(rows, [1, 3, 3]))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, [weight, rows]), [weight, rows], strict=True)
        )

    step = tf.function(step) if function else step
    expected, gathered, exchanges = 0.0, [], []
    for number in range(3 * STEPS + 1):
        before = operations_done()
        step(tf.constant(float((number + 1) * (kf.rank() + 1))))
        exchanges.append(operations_done() - before)
        gathered.append((number + 1) * sum(range(1, kf.size() + 1)) / STEPS)
        if len(gathered) == STEPS:
            expected -= sum(gathered) / (kf.size() if op == "mean" else 1)
            gathered = []
        np.testing.assert_allclose(weight.numpy(), [expected] * 2, rtol=1e-6)
        updates = (number + 1) // STEPS * (kf.size() if op == "sum" else 1)
        np.testing.assert_allclose(rows.numpy()[:, 0], -updates * np.array([0, 1, 0, 2]))
    # In the first of all steps the peers compare their variables.
    sent = [count > 0 for count in exchanges[1:]]
    assert sent == [(number + 1) % STEPS == 0 for number in range(1, 3 * STEPS + 1)], exchanges
    assert int(generations.native(optimizer.iterations)) == 3 * STEPS + 1


@each(family=FAMILIES)
def case_fit(family):
    """As many batches of one peer as make an update are one batch of a single process."""
    data = training.samples(STEPS * 6 * 8 * kf.size())
    whole = tf.data.Dataset.from_tensor_slices(data).batch(STEPS * 8 * kf.size())
    package = keras.optimizers.legacy if family == "legacy" else keras.optimizers
    wrapped = sgd(family, 0.05)
    single = training.fit_single(training.dense_model(), package.SGD(0.05), whole)
    own = kf.data.shard(tf.data.Dataset.from_tensor_slices(data)).batch(8)
    run = training.fit(training.dense_model(), wrapped, own)
    assert len(run.weights) == STEPS * 6 * training.EPOCHS
    assert training.differences(run, single, 1e-12) == []


def case_a_fit_of_uneven_batches():
    """Each sample of a step counts alike, on whichever peer it is, and each step of an update."""
    data = training.samples(45)
    wrapped = sgd("new", 0.05)
    single = training.fit_single(
        *(training.dense_model(), keras.optimizers.SGD(0.05)),
        tf.data.Dataset.from_tensor_slices(data).batch(45),
    )
    first = tf.data.Dataset.from_tensor_slices(tuple(part[:12] for part in data)).batch(4)
    rest = tf.data.Dataset.from_tensor_slices(tuple(part[12:] for part in data))
    own = first if kf.rank() == 0 else rest.batch(11)
    run = training.fit(training.dense_model(), wrapped, own)
    assert len(run.weights) == STEPS * training.EPOCHS
    assert training.differences(run, single, 1e-12) == []


@each(family=FAMILIES)
def case_a_loss_scale(family):
    """As `compile` puts it around an optimizer under mixed_float16."""
    optimizer = keras.mixed_precision.LossScaleOptimizer(sgd(family, 1.0))
    weight = tf.Variable([1.0])
    text = raised_by(
        errors.UnimplementedError,
        lambda: optimizer.apply_gradients([(tf.constant([1.0]), weight)]),
    )
    assert "loss scale" in text


def case_an_optimizer_that_does_so_itself_refuses():
    if not training.is_keras_3():
        raise Skip("Keras 2")
    text = raised_by(
        ValueError,
        lambda: SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), steps_per_update=2),
    )
    assert "gradient_accumulation_steps" in text


def case_no_number_of_steps():
    for steps in (0, -1, 1.5):
        text = raised_by(
            ValueError,
            lambda steps=steps: SynchronousSGDOptimizer(
                keras.optimizers.SGD(0.1), steps_per_update=steps
            ),
        )
        assert "1 or more" in text
