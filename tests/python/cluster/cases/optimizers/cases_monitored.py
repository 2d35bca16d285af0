"""Optimizers that measure the gradients they exchange, beside NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import each, exhaustive

import kungfu_tf as kf

JOBS = [{"np": 3}]
BATCH = 8
ALPHA = 0.8
SHAPES = [(7, 3), (5,), ()]

v1 = tf.compat.v1


def gradients(rank, step):
    """Of one peer in one step: as all peers know it."""
    random = np.random.default_rng(100 * rank + step)
    return [0.3 + random.normal(size=shape) for shape in SHAPES]


def squares(arrays):
    return sum(np.sum(np.square(a)) for a in arrays)


def norms(step):
    """Mean |g|² and |mean g|² of a step."""
    of_all = [gradients(rank, step) for rank in range(kf.size())]
    mean = [np.mean(arrays, axis=0) for arrays in zip(*of_all, strict=True)]
    return np.mean([squares(g) for g in of_all]), squares(mean)


def noise_scales(steps):
    """After each of them."""
    b, all_b = BATCH, BATCH * kf.size()
    s = g = 0.0
    for step in steps:
        small, big = norms(step)
        s = ALPHA * s + (1 - ALPHA) * (small - big) / (1 / b - 1 / all_b)
        g = ALPHA * g + (1 - ALPHA) * (all_b * big - b * small) / (all_b - b)
        yield max(s, 0) / g if g > 0 else np.inf


def variances(steps):
    for step in steps:
        small, big = norms(step)
        yield small - big


def wrapped(what, optimizer, **options):
    if what == "gradient_variance":
        return kf.optimizers.MonitorGradientVarianceOptimizer(optimizer, **options)
    return kf.optimizers.MonitorGradientNoiseScaleOptimizer(
        optimizer, BATCH, alpha=ALPHA, **options
    )


def expected(what, steps):
    make = variances if what == "gradient_variance" else noise_scales
    return list(make(steps))


def metric(optimizer, what):
    return optimizer.kungfu_algorithm.metrics[what]


def new_variables():
    if training.is_keras_3():
        return [tf.keras.Variable(np.zeros(shape), dtype="float64") for shape in SHAPES]
    return [tf.Variable(tf.zeros(shape, tf.float64)) for shape in SHAPES]


def step_of(optimizer, variables):
    if hasattr(optimizer, "build"):
        optimizer.build(variables)

    def step(*gradients):
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    return step


@each(what=["noise_scale", "gradient_variance"], traced=[True, False])
@exhaustive(what=["noise_scale"], traced=[True])
@exhaustive(what=["gradient_variance"], traced=[False])
def case_keras(what, traced):
    for make in training.keras_optimizers("sgd"):
        optimizer, variables = wrapped(what, make()), new_variables()
        step = step_of(optimizer, variables)
        step = tf.function(step) if traced else step
        values = []
        for i in range(3):
            step(*map(tf.constant, gradients(kf.rank(), i)))
            values.append(metric(optimizer, what).numpy())
        np.testing.assert_allclose(values, expected(what, range(3)), rtol=1e-5)
        assert kf.ops.consensus(np.array(values))
        means = [
            np.mean([gradients(rank, i)[0] for rank in range(kf.size())], axis=0) for i in range(3)
        ]
        np.testing.assert_allclose(training.values_of(variables[:1])[0], -0.05 * sum(means))


@each(what=["noise_scale", "gradient_variance"])
def case_session(what):
    """A TF1 graph, with an optimizer of its age."""
    with tf.Graph().as_default(), v1.Session() as session:
        feeds = [v1.placeholder(tf.float64, shape) for shape in SHAPES]
        variables = [v1.Variable(tf.zeros(shape, tf.float64)) for shape in SHAPES]
        loss = tf.add_n([tf.reduce_sum(v * f) for v, f in zip(variables, feeds, strict=True)])
        optimizer = wrapped(what, v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(loss)
        value = metric(optimizer, what)
        session.run(v1.global_variables_initializer())
        assert np.isnan(session.run(value))
        values = []
        for i in range(3):
            session.run(train, dict(zip(feeds, gradients(kf.rank(), i), strict=True)))
            values.append(session.run(value))
    np.testing.assert_allclose(values, expected(what, range(3)), rtol=1e-5)


def case_every_second_step():
    optimizer = wrapped("noise_scale", tf.keras.optimizers.SGD(0.1), monitor_interval=2)
    step = tf.function(step_of(optimizer, new_variables()))
    values = []
    for i in range(5):
        step(*map(tf.constant, gradients(kf.rank(), i)))
        values.append(metric(optimizer, "noise_scale").numpy())
    measured = expected("noise_scale", [0, 2, 4])
    np.testing.assert_allclose(values, [measured[i // 2] for i in range(5)], rtol=1e-5)


@each(what=["noise_scale", "gradient_variance"])
def case_a_newcomer_measures_with_the_others(what):
    """It has made other steps than they, and none of their measurements."""
    optimizer = wrapped(what, tf.keras.optimizers.SGD(0.1), monitor_interval=2)
    optimizer.kungfu_algorithm._steps.get().assign(kf.rank())
    metric(optimizer, what).assign(10.0 * kf.rank())
    model = training.dense_model("float32")
    values = []

    class Record(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            values.append(metric(optimizer, what).numpy())

    model.compile(optimizer, "mse")
    x, y = (a[kf.rank() :: kf.size()] for a in training.samples(BATCH * 4 * kf.size(), "float32"))
    model.fit(x, y, BATCH, verbose=0, callbacks=[Record()])
    assert kf.ops.consensus(np.array(values)), values
    assert values[0] == 0.0 < values[1] and len(values) == 4, values


def case_a_gradient_that_is_not_finite_is_left_out():
    optimizer = wrapped("gradient_variance", tf.keras.optimizers.SGD(0.0))
    variable = tf.keras.Variable([0.0]) if training.is_keras_3() else tf.Variable([0.0])
    optimizer.build([variable])
    for value in (float(kf.rank()), float("nan") if kf.rank() == 1 else 1.0):
        optimizer.apply_gradients([(tf.constant([value]), variable)])
    np.testing.assert_allclose(metric(optimizer, "gradient_variance").numpy(), 2 / 3, rtol=1e-6)


def case_a_scaled_loss():
    """The gradients of a scaled loss are as many times too large, the variance is not."""
    plain = tf.keras.optimizers.SGD(0.1)
    optimizer = wrapped("gradient_variance", plain)
    variables = new_variables()
    if training.is_keras_3():
        optimizer = tf.keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
        optimizer.build(variables)
        gradients_of = [1024 * g for g in gradients(kf.rank(), 0)]
    else:
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=1024.0)
        scaled = [tf.constant(1024 * g) for g in gradients(kf.rank(), 0)]
        gradients_of = optimizer.get_unscaled_gradients(scaled)
    optimizer.apply_gradients(zip(map(tf.constant, gradients_of), variables, strict=True))
    value = metric(plain, "gradient_variance").numpy()
    np.testing.assert_allclose(value, expected("gradient_variance", [0]), rtol=1e-5)


def case_slices():
    """The rows of a table: those of one index are one."""
    optimizer = wrapped("gradient_variance", tf.keras.optimizers.SGD(0.1))
    table = np.zeros((4, 2))
    variable = tf.keras.Variable(table) if training.is_keras_3() else tf.Variable(table)
    optimizer.build([variable])
    rows = [[0, 0, rank] for rank in range(kf.size())]
    dense = np.zeros((kf.size(), 4, 2))
    for rank, indices in enumerate(rows):
        np.add.at(dense[rank], indices, rank + 1.0)
    dtype = "float64"
    values = tf.fill([3, 2], tf.constant(kf.rank() + 1.0, dtype))
    gradient = tf.IndexedSlices(values, tf.constant(rows[kf.rank()]), tf.constant([4, 2]))
    optimizer.apply_gradients([(gradient, variable)])
    deviations = np.square(dense - dense.mean(axis=0)).sum(axis=(1, 2))
    np.testing.assert_allclose(
        metric(optimizer, "gradient_variance").numpy(), deviations.mean(), rtol=1e-5
    )


def case_uneven_batches_are_not_measured():
    """In `fit`, the last step of whom has more data than others."""
    optimizer = wrapped("gradient_variance", tf.keras.optimizers.SGD(0.1))
    model = training.dense_model("float32")
    x, y = training.samples(BATCH * 3 + 2 * kf.rank(), "float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    values = []

    class Record(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            values.append(metric(optimizer, "gradient_variance").numpy())

    model.compile(optimizer, "mse")
    model.fit(dataset, verbose=0, callbacks=[Record()])
    assert len(values) == 4 and len(set(values[:3])) == 3 and values[3] == values[2]
