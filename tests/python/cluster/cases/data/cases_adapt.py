"""`data.adapt`: a layer learns from the parts of all peers what it learns from the whole."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import raised_by

import kungfu_tf as kf

JOBS = [{"np": 3}]

layers = tf.keras.layers
WORDS = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])
RANDOM = np.random.default_rng(3)
NUMBERS = (RANDOM.normal(size=(47, 4)) * [1, 10, 100, 1000] + [0, 1, 1000, 7]).astype(np.float32)
TOKENS = RANDOM.choice(6, size=(47, 3), p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])


def whole(values):
    return tf.data.Dataset.from_tensor_slices(values)


def mine(values):
    """Each peer has another length: 4 samples, a half of the rest, the other half."""
    begin, end = [(0, 4), (4, 25), (25, 47)][kf.rank()]
    return whole(values[begin:end])


@each(axis=[-1, None])
def case_normalization(axis):
    layer, single = layers.Normalization(axis=axis), layers.Normalization(axis=axis)
    kf.data.adapt(layer, mine(NUMBERS).batch(8))
    single.adapt(whole(NUMBERS).batch(47))
    for name in ("mean", "variance"):
        np.testing.assert_allclose(*(np.asarray(getattr(x, name)) for x in (layer, single)), 1e-4)
    assert kf.ops.consensus(np.asarray(layer.variance))
    np.testing.assert_allclose(layer(NUMBERS), single(NUMBERS), atol=1e-4)


def case_normalization_of_images():
    images = np.random.default_rng(5).normal(3, 2, size=(47, 5, 4, 3)).astype(np.float32)
    layer = layers.Normalization()
    kf.data.adapt(layer, mine(images).batch(8))
    np.testing.assert_allclose(np.ravel(layer.mean), images.mean(axis=(0, 1, 2)), 1e-4)
    np.testing.assert_allclose(np.ravel(layer.variance), images.var(axis=(0, 1, 2)), 1e-4)


LOOKUPS = {
    "strings": lambda: layers.StringLookup(),
    "integers": lambda: layers.IntegerLookup(max_tokens=4),
    "text": lambda: layers.TextVectorization(max_tokens=6),
    "tf_idf": lambda: layers.StringLookup(output_mode="tf_idf"),
}


@each(kind=["strings", "integers", "text", "tf_idf"])
def case_vocabularies(kind):
    values = TOKENS.astype(np.int64) if kind == "integers" else WORDS[TOKENS]
    if kind == "tf_idf":  # where a token comes twice in a document, that of Keras 2 fails
        values = values[:, :1]
    if kind == "text":
        values = np.array([" ".join(words) for words in values])
    layer, single = LOOKUPS[kind](), LOOKUPS[kind]()
    kf.data.adapt(layer, mine(values).batch(8))
    single.adapt(whole(values).batch(8))
    assert layer.get_vocabulary() == single.get_vocabulary()
    np.testing.assert_allclose(layer(values), single(values), 1e-6)


def case_bins():
    layer = layers.Discretization(num_bins=4, epsilon=0.001)
    kf.data.adapt(layer, mine(NUMBERS[:, :1]).batch(8))
    found = np.bincount(np.ravel(layer(NUMBERS[:, :1])), minlength=4)
    assert found.min() >= 11, found
    assert kf.ops.consensus(np.ravel(layer(NUMBERS[:, :1])))


def case_other_layers_cannot_be():
    text = raised_by(TypeError, kf.data.adapt, layers.Dense(1), mine(NUMBERS).batch(8))
    assert "Dense is none of Normalization" in text
    text = raised_by(TypeError, kf.data.adapt, layers.Normalization(), NUMBERS)
    assert "from_tensor_slices" in text
