"""Common to all programs: samples, a model, and a check of the result.

A program's result is compared with that of plain Keras, which trains a model with the same initial
weights in one process, on the batches of all peers together. That is how a distributed step is
defined.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
import fashion_mnist

keras = tf.keras

BATCH = 16  # samples per step and peer
STEPS = 12
EPOCHS = 2


def samples(steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Float32 images in [0, 1] and int64 labels, for `steps` steps of all peers."""
    data, count = fashion_mnist.load(), steps * BATCH * kf.size()
    return (data.train_images[:count] / np.float32(255)), data.train_labels[:count]


def build(
    images: np.ndarray, model_class: Callable[..., Any] | None = None, outputs: int = 10
) -> Any:
    """A model for `images`, of a class whose constructor takes inputs and outputs.

    Its initial weights are the same wherever it is built; weights that peers draw would differ.
    """
    inputs = keras.Input(images.shape[1:])
    hidden = keras.layers.Dense(32, activation="relu")(keras.layers.Flatten()(inputs))
    model = (model_class or keras.Model)(inputs, keras.layers.Dense(outputs)(hidden))
    random = np.random.default_rng(1)
    model.set_weights([random.uniform(-0.05, 0.05, w.shape) for w in model.get_weights()])
    return model


def loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def sgd() -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def wrapped() -> Any:
    return kf.optimizers.SynchronousSGDOptimizer(sgd())


def sharded(images: np.ndarray, labels: np.ndarray) -> tf.data.Dataset:
    """This peer's batches; those of all peers together are those of `joint`."""
    return kf.data.shard(tf.data.Dataset.from_tensor_slices((images, labels))).batch(BATCH)


def joint(images: np.ndarray, labels: np.ndarray) -> tf.data.Dataset:
    """The batches of all peers, for one process."""
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH * kf.size())


def plain(images: np.ndarray, labels: np.ndarray, **options: Any) -> Any:
    """A model that plain Keras has trained on the batches of all peers, and its history."""
    model = build(images)
    model.compile(optimizer=sgd(), loss=loss(), **options)
    history = model.fit(joint(images, labels), epochs=EPOCHS, verbose=0)
    return model, history


def check(name: str, model: Any, expected: Any) -> None:
    """Checks that all peers have the same bits, which are those of one process up to rounding.

    It prints digests of both. Where plain Keras' digests are equal for two versions, ours must be.
    """
    weights, right = _trained(model), _trained(expected)
    for mine, theirs in zip(weights, right, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-4)
    begun = _trained(build(np.zeros((1, *model.input_shape[1:]))))
    assert all(
        np.abs(mine - start).max() > 1e-3 for mine, start in zip(weights, begun, strict=True)
    )
    digest = _digest(weights)
    everybody = kf.ops.all_gather(tf.constant([int(digest, 16)]), name=f"digest/{name}")
    assert len(set(everybody.numpy().ravel())) == 1, "the peers hold different weights"
    if kf.is_root():
        print(f"digest {name} {digest} {_digest(right)}", flush=True)


def _trained(model: Any) -> list[np.ndarray]:
    """The variables that an optimizer changes: in Keras 2 the weights include those of metrics."""
    return [np.asarray(variable) for variable in model.trainable_variables]


def _digest(weights: list[np.ndarray]) -> str:
    return hashlib.sha256(b"".join(w.tobytes() for w in weights)).hexdigest()[:12]
