"""Batch normalization over all peers against one process with the batches of all of them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from support import operations_done

import kungfu_tf as kf
from kungfu_tf.keras.layers.moments import moments
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations

JOBS = [{"np": 4}]
TOLERANCE = 1e-12
ROWS = {"even": [3, 3, 3, 3], "ragged": [4, 1, 0, 3]}  # samples by rank

tf.keras.backend.set_floatx("float64")
layers = tf.keras.layers


def mine(array, rows):
    """This peer's rows of what all peers have."""
    start = sum(rows[: kf.rank()])
    return array[start : start + rows[kf.rank()]]


def random(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape)


def assert_close(found, expected, tolerance=TOLERANCE):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    largest = np.abs(expected).max(initial=1)
    assert np.isfinite(largest)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


def same_everywhere(variables):
    return bool(kf.ops.consensus(np.int64(training.digest(training.values_of(variables)))))


def outputs_and_gradients(layer, x, factors, mask=None):
    """Of a loss that is the sum over all samples: the output, and what x, gamma and beta get."""
    x = tf.convert_to_tensor(x)
    layer.build(x.shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True, **({} if mask is None else {"mask": mask}))
        loss = tf.reduce_sum(tf.cast(tf.sin(y), x.dtype) * factors)
    sources = [x, *map(generations.native, layer.trainable_variables)]
    return y, *tape.gradient(loss, sources)


def assert_equal_to_single(shape, rows, mask=None, dtype="float64", tolerance=TOLERANCE, **options):
    rows = ROWS[rows]
    full, factors = (random(sum(rows), *shape, seed=seed).astype(dtype) for seed in (7, 8))
    if mask is not None:
        full = np.where(mask[..., None], full, 9.0)
        factors *= mask[..., None]
    full, options = 2 + full, {**options, "dtype": dtype}
    my_mask = None if mask is None else mine(mask, rows)
    plain = layers.BatchNormalization(**options)
    layer = kf.layers.SyncBatchNormalization(**options)
    expected = outputs_and_gradients(plain, full, factors, mask)
    before = operations_done()
    found = outputs_and_gradients(layer, mine(full, rows), mine(factors, rows), my_mask)
    assert operations_done() - before == 2, "one exchange forward and one backward"
    for own, whole in zip(found[:2], expected[:2], strict=True):
        assert_close(own, mine(whole.numpy(), rows), tolerance)
    for own, whole in zip(found[2:], expected[2:], strict=True):
        assert_close(kf.ops.all_reduce(own), whole, tolerance)
    values = zip(layer.weights, plain.weights, strict=True)
    for own, whole in values:
        assert_close(*training.values_of([own, whole]), tolerance)
    assert same_everywhere(layer.weights)
    moved = training.values_of([layer.moving_mean])[0]
    assert np.abs(moved).max() > 1e-3


@each(rows=["even", "ragged"])
@exhaustive(rows=["ragged"])
def case_outputs_and_gradients(rows):
    assert_equal_to_single([5], rows)
    assert_equal_to_single(
        [3, 4, 2], rows
    )  # of images, for which Keras 2 has a kernel that does all
    assert_equal_to_single([3, 4], rows, axis=1, scale=False)


def case_masked():
    """What is masked does not count for the moments."""
    for rows in ("even", "ragged"):
        mask = random(sum(ROWS[rows]), 4) > -0.5
        assert_equal_to_single([4, 3], rows, mask)


def case_renorm():
    if (3, 0) <= training.keras_version() < (3, 14):
        raise Skip("Keras 3 before 3.14 has no renorm")
    options = {"renorm": True, "renorm_clipping": {"rmax": 1.5, "dmax": 0.5}}
    assert_equal_to_single([5], "even", dtype="float32", tolerance=1e-5, **options)


def case_large_means():
    """As exact in float32 as the samples are."""
    full = (1e4 + random(64, 3)).astype("float32")
    mean, variance = moments(tf.constant(full[kf.rank() :: 4]), [0])
    assert_close(mean[0], full.mean(axis=0, dtype="float64").astype("float32"), 2e-3)
    assert_close(variance[0], full.var(axis=0, dtype="float64").astype("float32"), 1e-4)


@each(dtype=["float16", "bfloat16"])
@exhaustive(dtype=["float16"])
def case_half_precision(dtype):
    """The statistics are of float32."""
    layer = kf.layers.SyncBatchNormalization(dtype=f"mixed_{dtype}", momentum=0.0)
    full = 300 * random(8, 5).astype("float32")  # squares that float16 has no room for
    y = layer(tf.cast(full[2 * kf.rank() :][:2], dtype), training=True)
    assert y.dtype == dtype
    rounded = tf.cast(tf.cast(full, dtype), tf.float32).numpy()
    expected = (rounded - rounded.mean(axis=0)) / rounded.std(axis=0)
    assert_close(tf.cast(y, tf.float32), expected[2 * kf.rank() :][:2], 0.02)
    assert same_everywhere(layer.weights)
    found = training.values_of([layer.moving_mean, layer.moving_variance])
    assert_close(found[0], rounded.mean(axis=0), 1e-3)
    assert_close(found[1] / rounded.var(axis=0), np.ones(5, "float32"), 1e-5)


def case_gradients_of_gradients():
    """Of moments that are traced here, by one process, without any trick."""
    rows = ROWS["ragged"]
    full = random(8, 3)

    def penalty(x, moments_of, total):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                mean, variance = moments_of(x)
                loss = tf.reduce_sum(tf.sin((x - mean) * tf.math.rsqrt(variance + 0.1)))
            slopes = tf.reduce_sum(inner.gradient(loss, x) ** 2)
        return outer.gradient(slopes, x)

    def plain(x):
        mean = tf.reduce_mean(x, 0, keepdims=True)
        return mean, tf.reduce_mean((x - mean) ** 2, 0, keepdims=True)

    expected = mine(penalty(tf.constant(full), plain, tf.identity).numpy(), rows)
    for run in (penalty, tf.function(penalty)):
        found = run(tf.constant(mine(full, rows)), lambda x: moments(x, [0]), kf.ops.all_reduce)
        assert_close(found, expected)


def model_of(make_layer):
    """Two normalised layers, of which one is as images have it."""
    tf.keras.utils.set_random_seed(11)
    return tf.keras.Sequential(
        [
            layers.Input((training.FEATURES,)),
            layers.Dense(8, bias_initializer="ones"),
            make_layer(),
            layers.Activation("tanh"),
            layers.Reshape((2, 2, 2)),
            layers.Conv2D(3, 2, bias_initializer="ones"),
            make_layer(),
            layers.Activation("tanh"),
            layers.Flatten(),
            layers.Dense(1, bias_initializer="ones"),
        ]
    )


def what_differs(run, single, model, plain):
    """As `training.differences`, and of the moving statistics."""
    # A bias before a normalisation has no effect, and a gradient of rounding errors.
    checked = [i for i in range(len(run.before)) if i not in (1, 5)]
    parts = [
        dataclasses.replace(
            r, before=[r.before[i] for i in checked], after=[r.after[i] for i in checked]
        )
        for r in (run, single)
    ]
    wrong = training.differences(*parts, TOLERANCE)
    if not same_everywhere(model.non_trainable_variables):
        wrong.append("the peers' statistics differ")
    own, whole = (training.values_of(m.non_trainable_variables) for m in (model, plain))
    for i, (value, expected) in enumerate(zip(own, whole, strict=True)):
        if not np.linalg.norm(value - expected) <= TOLERANCE * np.linalg.norm(expected):
            wrong.append(f"statistic {i} is off")
    return wrong


def case_fit():
    """And the check sees layers that normalise each peer's batch by itself."""

    def sgd():
        return tf.keras.optimizers.SGD(0.02, momentum=0.9)

    options = {"steps_per_execution": 4}
    data = training.epoch()
    plain = model_of(layers.BatchNormalization)
    single = training.fit_single(plain, sgd(), training.whole(data), **options)
    for make_layer in (kf.layers.SyncBatchNormalization, layers.BatchNormalization):
        model, optimizer = model_of(make_layer), SynchronousSGDOptimizer(sgd())
        run = training.fit(model, optimizer, training.mine(data), **options)
        wrong = what_differs(run, single, model, plain)
        assert bool(wrong) == (make_layer is layers.BatchNormalization), wrong


DEALS = [[5, 3, 0, 8], [0, 16, 0, 0], [1, 1, 1, 1], [4, 0, 2, 10]]  # samples of a step, by rank


def step_of(model, optimizer, make_tape):
    """Of training on the mean of the loss over the samples that it is given."""
    variables = model.trainable_variables
    signature = [tf.TensorSpec([None, n], tf.float64) for n in (training.FEATURES, 1)]

    @tf.function(input_signature=signature)
    def step(x, y):
        with make_tape(tf.shape(x)[0]) as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    return step


@each(by=["optimizer", "tape"])
def case_batches_of_different_sizes(by):
    """Each step's samples are dealt out anew, and some peers have none."""

    def plain_tape(count):
        return tf.GradientTape()

    def tape_of_all(count):
        return kf.DistributedGradientTape(tf.GradientTape(), samples=count)

    def sgd():
        return tf.keras.optimizers.SGD(0.05)

    plain, model = model_of(layers.BatchNormalization), model_of(kf.layers.SyncBatchNormalization)
    single = step_of(plain, sgd(), plain_tape)
    if by == "tape":
        own = step_of(model, sgd(), tape_of_all)
    else:
        step = step_of(model, SynchronousSGDOptimizer(sgd()), plain_tape)

        @tf.function(input_signature=step.input_signature)
        def own(x, y):
            with sample_weights.samples(tf.shape(x)[0]):
                step.python_function(x, y)

    ends = np.cumsum([sum(rows) for rows in DEALS])
    batches = [np.split(part, ends[:-1]) for part in training.samples(ends[-1])]
    for rows, *batch in zip(DEALS, *batches, strict=True):
        if kf.is_root():
            single(*batch)
        own(*(mine(part, rows) for part in batch))
    assert same_everywhere(model.weights)
    if kf.is_root():
        values = map(training.values_of, (model.weights, plain.weights))
        for value, expected in zip(*values, strict=True):
            assert_close(value, expected)


def case_inference_and_frozen_layers_exchange_nothing():
    layer = kf.layers.SyncBatchNormalization()
    x = tf.constant(random(2, 3, seed=kf.rank()))
    layer(x, training=True)
    before, values = operations_done(), training.values_of(layer.weights)
    layer(x, training=False)
    layer(x)
    layer.trainable = False
    layer(x, training=True)
    assert operations_done() == before
    np.testing.assert_array_equal(training.values_of(layer.weights), values)


def case_a_peer_may_build_and_trace_more_than_others():
    """And a tape may derive more than once."""
    if kf.rank() == 0:
        kf.layers.SyncBatchNormalization().build((None, 3))
    first, second = (kf.layers.SyncBatchNormalization() for _ in range(2))
    for layer in (first, second):
        layer.build((None, 3))

    @tf.function
    def inner(x):
        return second(first(x, training=True) ** 3, training=True)

    @tf.function
    def gradients(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = inner(x)
            once, more = tf.reduce_sum(y**3), tf.reduce_sum(tf.sin(inner(x + y)))
        return tape.gradient(once, x), tape.gradient(more, x)

    x = tf.constant(random(8, 3))
    own = x[2 * kf.rank() : 2 * kf.rank() + 2]
    if kf.rank() == 0:
        gradients.get_concrete_function(tf.TensorSpec([None, 3], tf.float64))
    eager = [part.numpy() for part in gradients.python_function(own)]
    for _ in range(3):
        np.testing.assert_allclose(gradients(own), eager, rtol=0, atol=TOLERANCE)
    assert same_everywhere([*first.weights, *second.weights])


def case_xla_is_not_asked():
    layer = kf.layers.SyncBatchNormalization()
    if training.is_keras_3():
        assert not layer.supports_jit
    copy = type(layer).from_config(layer.get_config())
    assert copy._kungfu_equal and not getattr(copy, "supports_jit", False)


LOAD = """
import sys
sys.modules["kungfu_tf"] = None
import numpy as np, tensorflow as tf
tf.keras.backend.set_floatx("float64")
for path in sys.argv[2:]:
    model = tf.keras.models.load_model(path)
    assert type(model.layers[1]).__name__ == "BatchNormalization", type(model.layers[1])
    np.testing.assert_allclose(model.predict(np.load(sys.argv[1]), verbose=0), np.load(
        sys.argv[1].replace("x.npy", "y.npy")), rtol=0, atol=1e-12)
    model.compile("sgd", "mse")
    model.fit(np.load(sys.argv[1]), np.zeros([8, 1]), verbose=0)
"""


def case_files_open_with_and_without_this_package():
    model = model_of(kf.layers.SyncBatchNormalization)
    x, _ = training.samples(8)
    model(x, training=True)
    expected = model(x, training=False).numpy()
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, "model.keras")]
        if not training.is_keras_3():
            files += [os.path.join(folder, "saved_model"), os.path.join(folder, "model.h5")]
        for file in files:
            model.save(file)
        loaded = tf.keras.models.load_model(files[0])
        if kf.is_root():
            np.save(os.path.join(folder, "x.npy"), x)
            np.save(os.path.join(folder, "y.npy"), expected)
            command = [sys.executable, "-c", LOAD, os.path.join(folder, "x.npy"), *files]
            result = subprocess.run(command, capture_output=True, text=True, timeout=90)
            assert result.returncode == 0, result.stderr
    assert type(loaded.layers[1]) is layers.BatchNormalization
    kf.layers.synchronize(loaded)
    kf.layers.synchronize(loaded)  # again: nothing happens
    assert_close(loaded(x, training=False), expected)
    own = training.samples(32)[0][8 * kf.rank() :][:8]
    assert_close(loaded(own, training=True), model(own, training=True))
    assert same_everywhere(loaded.non_trainable_variables)
