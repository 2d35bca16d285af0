"""What a model computes with besides its variables: made equal, or seen not to be."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.errors import DivergenceError
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

keras = tf.keras
X = np.random.default_rng(1).normal(size=(16, 4)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)
WORDS = np.array([["ant"], ["bee"], ["cat"], ["dog"]])


def model_of(*layers, shape=(4,), dtype="float32"):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input(shape, dtype=dtype), *layers])
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.01)), "mse")
    return model


def fit(model, x=X, y=Y, **options):
    part = slice(kf.rank(), None, kf.size())
    return model.fit(x[part], y[part], **{"batch_size": 4, "verbose": 0, **options})


def diverged(model, *args) -> str:
    return raised_by(DivergenceError, fit, model, *args)


def ops_of_keras():
    return keras.ops if training.is_keras_3() else tf


def case_what_is_derived_from_variables_is_derived_from_those_of_rank_0():
    normalization = keras.layers.Normalization()
    normalization.adapt(X[kf.rank() :: 2] * (1 + kf.rank()))
    model = model_of(normalization, keras.layers.Dense(1))
    model.predict(X[:1], verbose=0)  # traced with this peer's own
    fit(model, validation_data=(X, Y))
    roots = kf.ops.broadcast(np.asarray(normalization.mean)).numpy()
    np.testing.assert_array_equal(np.ravel(normalization.mean), np.ravel(roots))
    np.testing.assert_allclose(np.ravel(roots), X[::2].mean(axis=0), rtol=1e-5, atol=1e-6)
    assert kf.ops.consensus(model.predict(X[:3], verbose=0))


def model_of_words(lookup):
    after = [keras.layers.Embedding(6, 2), keras.layers.Flatten(), keras.layers.Dense(1)]
    return model_of(lookup, *after, shape=(1,), dtype="string")


@each(way=["fit", "train_on_batch"])
def case_a_vocabulary_is_compared(way):
    lookup = keras.layers.StringLookup(name="words")
    lookup.adapt(WORDS[2 * kf.rank() : 2 * kf.rank() + 2])
    model = model_of_words(lookup)
    words = tf.constant(np.tile(WORDS, (4, 1)))
    train = fit if way == "fit" else lambda model, x, y: model.train_on_batch(x, y)
    text = raised_by(DivergenceError, train, model, words, Y)
    assert "the vocabulary (lookup_table of layer 'words') differs from rank 0's on rank 1" in text
    assert "kungfu_tf.data.adapt(layer, dataset)" in text


def case_a_vocabulary_that_all_have_is_none_to_speak_of():
    lookup = keras.layers.StringLookup()
    part = tf.data.Dataset.from_tensor_slices(WORDS[2 * kf.rank() : 2 * kf.rank() + 2])
    kf.data.adapt(lookup, part.batch(2))
    model = model_of_words(lookup)
    fit(model, tf.constant(np.tile(WORDS, (4, 1))), Y)


class Untracked(keras.layers.Layer):
    """Keras 3 knows nothing of its variable, which has no part in an inference."""

    def __init__(self, value):
        super().__init__(name="untracked")
        self.steps = [tf.Variable(value, name="steps")]

    def call(self, x, training=False):
        return x * tf.cast(self.steps[0], x.dtype) if training else x


def case_an_untracked_variable_is_compared():
    if not training.is_keras_3():
        raise Skip("Keras 2 tracks all variables, and makes them equal")
    text = diverged(model_of(Untracked(1.0 + kf.rank()), keras.layers.Dense(1)))
    assert "the untracked variable 'steps:0' (steps of layer 'untracked')" in text, text
    fit(model_of(Untracked(1.0), keras.layers.Dense(1)))


class Features(keras.layers.Layer):
    """Picks features by a constant."""

    def __init__(self, chosen, **options):
        super().__init__(**options)
        self.mask = np.eye(4, dtype=np.float32)[:, chosen]

    def call(self, x):
        return ops_of_keras().matmul(x, self.mask)


def case_the_first_layer_that_differs_is_named():
    chosen = [0, 1 + kf.rank()]
    dense, last = keras.layers.Dense(4), keras.layers.Dense(1)
    before = operations_done()
    text = diverged(model_of(dense, Features(chosen, name="mine"), last))
    assert operations_done() > before
    assert "layer 'mine' (Features) differs from rank 0's on rank 1" in text, text
    fit(model_of(keras.layers.Dense(4), Features([0, 1]), keras.layers.Dense(1)))


class Noise(keras.layers.Layer):
    """Random by design, also where nothing is trained."""

    def call(self, x):
        return x + tf.random.normal(tf.shape(x))


def case_layers_that_are_random_by_design_are_left_in_peace():
    fit(model_of(Noise(), keras.layers.Dense(1)))


class Counting(keras.layers.Layer):
    """Counts its calls."""

    def build(self, shape):
        self.calls = self.add_weight(name="calls", shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.calls.assign(self.calls + 1)
        return x


@each(steps=[1, 3])
@exhaustive(steps=[3])
def case_the_inference_leaves_no_trace(steps):
    """No state, no batch, no trace of the function, and no random number."""
    counting, traces = Counting(), []

    class Model(keras.Sequential):
        def train_step(self, data):
            traces.append(tf.nest.map_structure(lambda tensor: tensor.shape, data))
            return super().train_step(data)

    keras.utils.set_random_seed(1)
    model = Model([keras.layers.Input((4,)), counting, keras.layers.Dense(1)])
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.01))
    model.compile(optimizer, "mse", steps_per_execution=steps)
    # Where metrics make their variables, a function is traced twice. Keras 3.3 cannot evaluate
    # fewer batches than an execution has.
    model.evaluate(X, Y, batch_size=4, verbose=0)
    counting.calls.assign(0.0)
    x, y = X[kf.rank() :: 2], Y[kf.rank() :: 2]
    seen = []

    def note(a):
        seen.append(a.copy())
        return a

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(1)
    data = data.map(
        lambda a, b: (tf.ensure_shape(tf.numpy_function(note, [a], a.dtype), [None, 4]), b)
    )
    model.fit(data, epochs=2, verbose=0)
    assert {str(shapes) for shapes in traces} == {str(traces[0])}  # always for batches of any size
    np.testing.assert_array_equal(np.concatenate(seen), np.concatenate([x, x]))
    assert float(np.asarray(counting.calls)) == 16
    assert int(model.optimizer.iterations.numpy()) == 16


@each(what=["ragged", "sparse", "two inputs"])
def case_samples_of_other_kinds(what):
    if what == "ragged":
        rows = tf.ragged.constant([[1, 2], [3], [4, 1, 2], [2]] * 2)
        x = tf.data.Dataset.from_tensor_slices(rows)
        first = keras.layers.Lambda(lambda r: tf.reduce_sum(tf.cast(r, tf.float32), 1)[:, None])
    elif what == "sparse":
        x = tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense(X[:8]))
        first = keras.layers.Lambda(lambda s: tf.reshape(tf.sparse.to_dense(s), [-1, 4]))
    else:
        x = tf.data.Dataset.from_tensor_slices((X[:8], X[8:]))
        first = keras.layers.Lambda(lambda pair: pair[0] + pair[1])

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.last = first, keras.layers.Dense(1)

        def call(self, x):
            return self.last(self.first(x))

    keras.utils.set_random_seed(1)
    model = Model()
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.01)), "mse")
    data = kf.data.shard(tf.data.Dataset.zip((x, tf.data.Dataset.from_tensor_slices(Y[:8]))))
    model.fit(data.batch(2), verbose=0)
    assert kf.ops.consensus(np.asarray(model.last.kernel))


def case_a_model_that_cannot_be_called_is_trained():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.part = keras.layers.Dense(1)

        def build(self, shape=None):
            self.part.build((None, 4))
            self.built = True

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.part(x) - y))
            weights = self.part.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"own": loss}

    model = Model()
    model.build()
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.01)))
    fit(model)
