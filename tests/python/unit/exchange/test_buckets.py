"""Which gradients travel together."""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf.exchange.buckets import plan
from kungfu_tf.exchange.mean_gradients import mean_gradients


def gradients(*sizes: int | None, dtype: str = "float32") -> list[tf.Tensor | None]:
    return [None if size is None else tf.zeros([size], dtype) for size in sizes]


def plan_of(values: list[tf.Tensor | None], bucket_bytes: int) -> list[list[int]]:
    variables = [tf.zeros([]) if value is None else value for value in values]
    return plan(values, variables, bucket_bytes)


def test_the_last_gradients_travel_first_in_full_buckets():
    assert plan_of(gradients(1, 1, 1, 1, 1), 8) == [[4, 3], [2, 1], [0]]
    assert plan_of(gradients(1, 1, 1, 1, 1), 100) == [[4, 3, 2, 1, 0]]


def test_one_that_is_larger_than_a_bucket_travels_alone():
    assert plan_of(gradients(1, 100, 1, 1), 8) == [[3, 2], [1], [0]]


def test_none_is_in_no_bucket():
    assert plan_of(gradients(1, None, 1), 100) == [[2, 0]]
    assert plan_of(gradients(None, None), 100) == []


def test_dtypes_do_not_mix_and_do_not_close_each_others_buckets():
    halves, floats = gradients(1, 1, 1, dtype="float16"), gradients(1, 1, 1)
    mixed = [value for pair in zip(halves, floats, strict=True) for value in pair]
    assert plan_of(mixed, 8) == [[5, 3], [4, 2, 0], [1]]


def test_slices_and_unknown_sizes_travel_alone():
    slices = tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    values = [tf.zeros([1]), slices, tf.zeros([1])]
    assert plan(values, [tf.zeros([1]), tf.zeros([3, 2]), tf.zeros([1])], 100) == [[2, 0], [1]]

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def check(x):
        assert plan([tf.zeros([1]), x], [tf.zeros([1]), x], 100) == [[1], [0]]

    check(tf.zeros([3]))


def test_sizes_are_the_variables():
    """A gradient's static shape may be known on one peer and not on another."""

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def check(x):
        assert plan([x, tf.zeros([1])], [tf.zeros([1]), tf.zeros([1])], 8) == [[1, 0]]

    check(tf.zeros([1]))


def test_alone_nothing_is_added_to_the_program():
    values = [tf.zeros([2]), None]
    means = mean_gradients(values, [tf.zeros([2]), tf.zeros([1])])
    assert means[0] is values[0] and means[1] is None
