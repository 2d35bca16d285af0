"""Which losses are seen to be sums over the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from kungfu_tf.keras.fit.added_losses import adds_up_samples

WEIGHT = tf.Variable(tf.ones([4, 3]))
CONSTANT = tf.ones([4, 3])
SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": tf.reduce_sum,
    "scaled": lambda x: 0.01 * tf.reduce_sum(x**2),
    "divided by a number": lambda x: tf.reduce_sum(x) / 3.0,
    "scaled by a weight": lambda x: tf.reduce_sum(x) * tf.reduce_sum(WEIGHT),
    "in two steps": lambda x: tf.reduce_sum(tf.reduce_sum(x, axis=0)),
    "the last axis first": lambda x: tf.reduce_sum(tf.reduce_sum(x, axis=-1)),
    "beside a mean": lambda x: tf.reduce_mean(x) + tf.reduce_sum(x),
    "of each sample": lambda x: tf.reduce_sum(x, axis=-1),
    "as another type": lambda x: tf.cast(-tf.reduce_sum(x), tf.float64),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "mean": tf.reduce_mean,
    "mean of sums over features": lambda x: tf.reduce_mean(tf.reduce_sum(x, axis=-1)),
    "sum of means": lambda x: tf.reduce_sum(tf.reduce_mean(x, axis=0)),
    "divided by the samples": lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32),
    "multiplied with their inverse": (
        lambda x: tf.reduce_sum(x) * (1 / tf.cast(tf.shape(x)[0], tf.float32))
    ),
    "of a weight": lambda x: tf.reduce_sum(WEIGHT**2),
    "of a constant": lambda x: tf.reduce_sum(CONSTANT**2),
    "a number": lambda x: 0.5,
}


def seen_in_graph(loss: Callable[[Any], Any], samples: int | None) -> bool:
    seen = []

    @tf.function(autograph=False)
    def step(x: Any) -> None:
        seen.append(adds_up_samples(loss(x)))

    step.get_concrete_function(tf.TensorSpec([samples, 3]))
    return seen[0]


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str) -> None:
    assert seen_in_graph(SUMS[name], None)


@pytest.mark.parametrize("name", [name for name in SUMS if "weight" not in name])
def test_sums_over_batches_of_one_size(name: str) -> None:
    assert seen_in_graph(SUMS[name], 4)


def test_a_weight_may_be_the_size_of_all_batches() -> None:
    assert not seen_in_graph(SUMS["scaled by a weight"], 4)


@pytest.mark.parametrize("samples", [None, 4])
@pytest.mark.parametrize("name", OTHERS)
def test_what_is_none(name: str, samples: int | None) -> None:
    assert not seen_in_graph(OTHERS[name], samples)


def test_without_a_graph_nobody_knows() -> None:
    assert not adds_up_samples(tf.reduce_sum(CONSTANT))
