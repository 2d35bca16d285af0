"""What `accuracy.py` trains: small networks, whose steps take less than a millisecond."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import austen
import fashion_mnist
import keras
import numpy as np
import tensorflow as tf

CHARACTERS = " abcdefghijklmnopqrstuvwxyz\n.,;:!?'\"-"  # others are blanks
CONTEXT = 8  # characters from which the next one is predicted
BLOCK = 1000  # characters: of ten blocks one is for validation, and one for the test
HELD_OUT = 20_000  # characters that are predicted in each of the two


@dataclasses.dataclass(frozen=True)
class Task:
    """Something to learn.

    Attributes:
        batch: The samples of a peer and step.
        trained: The numbers of samples to train with.
        validation: Those that choose the learning rate.
        test: Those that tell how good a model is.
        samples: Maps numbers of samples to inputs and labels, tensors.
        network: Makes a network, whose answers are logits.
        optimizer: Makes an optimizer.
        score: Of logits and labels, a scalar.
    """

    batch: int
    trained: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    samples: Callable[[Any], tuple[Any, Any]]
    network: Callable[[], keras.Model]
    optimizer: Callable[[], Any]
    score: Callable[[Any, Any], Any]


def loss(logits: Any, labels: Any) -> Any:
    """The mean cross-entropy, in nats."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses)


def accuracy(logits: Any, labels: Any) -> Any:
    """In percent."""
    is_right = tf.equal(tf.argmax(logits, axis=1), tf.cast(labels, tf.int64))
    return 100 * tf.reduce_mean(tf.cast(is_right, tf.float32))


def images(momentum: float = 0.9) -> Task:
    """Fashion-MNIST by a network with one hidden layer, 50,890 weights."""
    data = fashion_mnist.load()
    pixels = tf.constant(np.concatenate([data.train_images, data.test_images]))
    labels = tf.constant(np.concatenate([data.train_labels, data.test_labels]))
    layers = keras.layers
    ends = (0, 53_248, len(data.train_images), len(pixels))
    trained, validation, test = (np.arange(*pair) for pair in itertools.pairwise(ends))
    return Task(
        batch=32,
        trained=trained,
        validation=validation,
        test=test,
        samples=lambda numbers: (
            tf.cast(tf.gather(pixels, numbers), tf.float32) / 255,
            tf.gather(labels, numbers),
        ),
        network=lambda: keras.Sequential(
            [
                keras.Input(pixels.shape[1:]),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10),
            ]
        ),
        optimizer=lambda: keras.optimizers.SGD(momentum=momentum),
        score=accuracy,
    )


def novels() -> Task:
    """The next character of Austen's novels by a network with one hidden layer."""
    places = {character: place for place, character in enumerate(CHARACTERS)}
    text = [places.get(character, 0) for character in austen.load().lower()]
    characters = tf.constant(text, tf.int32)
    starts = np.arange(len(text) - CONTEXT)
    part = starts // BLOCK % 10
    random = np.random.default_rng(0)
    validation, test = (random.choice(starts[part == n], HELD_OUT, replace=False) for n in (8, 9))
    layers, kinds = keras.layers, len(CHARACTERS)

    def samples(numbers: Any) -> tuple[Any, Any]:
        before = tf.gather(characters, numbers[:, tf.newaxis] + np.arange(CONTEXT))
        return tf.one_hot(before, kinds), tf.gather(characters, numbers + CONTEXT)

    return Task(
        batch=64,
        trained=starts[part < 8],
        validation=validation,
        test=test,
        samples=samples,
        network=lambda: keras.Sequential(
            [
                keras.Input((CONTEXT, kinds)),
                layers.Dense(16, use_bias=False),  # a character's vector: its gradient is dense
                layers.Flatten(),
                layers.Dense(112, activation="relu"),
                layers.Dense(kinds),
            ]
        ),
        optimizer=lambda: keras.optimizers.Adam(),
        score=loss,
    )


TASKS = {
    "images": images,
    "images-plain": functools.partial(images, momentum=0.0),
    "novels": novels,
}
