"""fuse and defuse."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf


@pytest.mark.parametrize("dynamic", [False, True])
def test_round_trip(dynamic: bool) -> None:
    values = [tf.range(6.0)[None, :], tf.constant(7.0), tf.zeros([0, 3]), tf.ones([2, 2])]
    vector = kf.ops.fuse(values)
    np.testing.assert_array_equal(vector, [0, 1, 2, 3, 4, 5, 7, 1, 1, 1, 1])
    shapes = [tf.shape(value) if dynamic else value.shape for value in values]
    for value, again in zip(values, kf.ops.defuse(vector, shapes), strict=True):
        assert again.shape == value.shape
        np.testing.assert_array_equal(again, value)


def test_gradient() -> None:
    x, y = tf.constant([1.0, 2.0]), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        first, second = kf.ops.defuse(kf.ops.fuse([x, y]) * [1.0, 2.0, 3.0], [[2], []])
        loss = tf.reduce_sum(first**2) + second
    dx, dy = tape.gradient(loss, [x, y])
    np.testing.assert_array_equal(dx, [2.0, 16.0])
    np.testing.assert_array_equal(dy, 3.0)


def test_one_dtype_only() -> None:
    with pytest.raises(ValueError, match="float32, int32"):
        kf.ops.fuse([1.0, 2])
    with pytest.raises(ValueError, match="none"):
        kf.ops.fuse([])


def test_sizes_that_do_not_add_up() -> None:
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        kf.ops.defuse(tf.zeros([5]), [[2], [2]])
    with pytest.raises(ValueError, match=r"unknown|None"):
        kf.ops.defuse(tf.zeros([5]), [tf.TensorShape(None)])
