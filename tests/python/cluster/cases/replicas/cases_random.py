"""From one seed each peer has random numbers of its own, the same in every run."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

keras = tf.keras
layers = keras.layers
SHAPE = (4, 4, 1)
STEPS = 4
# fmt: off
KINDS = [
    "dropout", "dropout with a seed", "gaussian", "flip", "flip with a seed", "tf.random",
    "generator", "keras.random",
]
# fmt: on


class Draws(layers.Layer):
    """Noise of the program's own making."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw
        self.generator = tf.random.Generator.from_seed(3)

    def call(self, x, training=False):
        return x + self.draw(self, tf.shape(x)) if training else x


def noise(kind):
    return {
        "dropout": lambda: layers.Dropout(0.5),
        "dropout with a seed": lambda: layers.Dropout(0.5, seed=3),
        "gaussian": lambda: layers.GaussianNoise(1.0),
        "flip": lambda: layers.RandomFlip("horizontal"),
        "flip with a seed": lambda: layers.RandomFlip("horizontal", seed=3),
        "tf.random": lambda: Draws(lambda self, shape: tf.random.normal(shape)),
        "generator": lambda: Draws(lambda self, shape: self.generator.normal(shape)),
        "keras.random": lambda: Draws(lambda self, shape: keras.random.normal(shape)),
    }[kind]()


class Noisy(keras.Model):
    """Writes down what comes out of a random layer."""

    def __init__(self, kind):
        super().__init__()
        self.noise = noise(kind)
        self.last = keras.Sequential([layers.Flatten(), layers.Dense(1)])
        self.seen = []

    def call(self, x, training=False):
        x = self.noise(x, training=training)
        if training:
            tf.numpy_function(self.see, [x], [])
        return self.last(x)

    def see(self, values):
        self.seen.append(training.digest([values]))


def seen(kind, eager):
    """What all peers saw in each step of two trainings: an array of [rank, step]."""
    keras.utils.set_random_seed(5)
    images = np.random.default_rng(1).normal(size=(16, *SHAPE)).astype("float32")
    model = Noisy(kind)
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.0)), "mse", run_eagerly=eager)
    data = tf.data.Dataset.from_tensors((images, np.full([16, 1], kf.rank(), "float32")))
    for _ in range(2):
        model.fit(data.repeat(STEPS), verbose=0)
    return kf.ops.all_gather(np.array(model.seen, np.int64)).numpy()


@each(kind=KINDS, eager=[False, True])
@exhaustive(
    kind=["dropout", "flip with a seed", "tf.random", "generator", "keras.random"], eager=[False]
)
@exhaustive(kind=["dropout with a seed", "gaussian", "flip", "tf.random"], eager=[True])
def case_each_peer_draws_its_own(kind, eager):
    """In all steps, of a second `fit` too; and the same when all is done again."""
    if kind == "keras.random" and not training.is_keras_3():
        raise Skip("Keras 2 has no keras.random")
    first = seen(kind, eager)
    assert first.shape == (kf.size(), 2 * STEPS)
    assert len(np.unique(first)) == first.size
    if kind == "keras.random" and training.keras_version() < (3, 13):
        return  # set_random_seed keeps the seed of keras.random
    np.testing.assert_array_equal(seen(kind, eager), first)


def case_after_fit_peers_draw_the_same():
    """Programs shard by them."""
    seen("dropout", eager=True)
    drawn = [tf.random.normal([3]), np.random.normal(size=3), tf.random.normal([3], seed=1)]
    drawn += [keras.random.normal([3])] if training.is_keras_3() else []
    for values in drawn:
        assert kf.ops.consensus(tf.cast(values, tf.float64))
