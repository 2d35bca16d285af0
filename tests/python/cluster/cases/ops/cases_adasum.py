"""Adasum, beside its definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf

JOBS = [
    {"np": 1},
    {"np": 2},
    {"np": 3},
    {"np": 4, "cases": ["sizes", "a_group"]},
    {"np": 5, "cases": ["sizes"]},
]
NEEDS_KERAS = False


def pair(a, b):
    product = np.sum(a * b)
    return (1 - product / (2 * np.sum(a * a))) * a + (1 - product / (2 * np.sum(b * b))) * b


def expected(values):
    """Pairs, pairs of pairs, and so on; the last ones are combined with the first ones before."""
    among = 1 << (len(values).bit_length() - 1)
    first, rest = values[:among], values[among:]
    first = [pair(a, b) for a, b in zip(first, rest, strict=False)] + first[len(rest) :]
    while len(first) > 1:
        first = [pair(a, b) for a, b in zip(first[::2], first[1::2], strict=True)]
    return first[0]


def vectors(size, shape=(3, 5)):
    return [np.random.default_rng(rank).normal(size=shape) for rank in range(size)]


def case_sizes():
    values = vectors(kf.size())
    mine = tf.constant(values[kf.rank()])
    for run in (kf.ops.adasum, tf.function(kf.ops.adasum)):
        np.testing.assert_allclose(run(mine), expected(values), rtol=1e-12)


def case_the_same_bits_everywhere():
    result = kf.ops.adasum(tf.random.normal([1000]))
    assert kf.ops.consensus(result)


def case_what_it_means():
    """Equal vectors stay as they are, orthogonal ones are added, zeros do not count."""
    same = tf.constant([3.0, 4.0])
    np.testing.assert_allclose(kf.ops.adasum(same), same, rtol=1e-6)
    own = tf.one_hot(kf.rank(), kf.size())
    np.testing.assert_allclose(kf.ops.adasum(own), np.ones(kf.size()), rtol=1e-6)
    of_one = same if kf.rank() == kf.size() - 1 else tf.zeros_like(same)
    np.testing.assert_allclose(kf.ops.adasum(of_one), same, rtol=1e-6)


def case_many_at_once():
    """Each tensor counts by itself, in its own dtype."""
    shapes = [(3, 5), (), (0, 2), (7,)]
    dtypes = [tf.float64, tf.float32, tf.float32, tf.bfloat16]
    values = [vectors(kf.size(), shape) for shape in shapes]
    mine = [
        tf.cast(of_ranks[kf.rank()], dtype) for of_ranks, dtype in zip(values, dtypes, strict=True)
    ]
    found = kf.ops.group_adasum(mine)
    assert [tensor.dtype for tensor in found] == dtypes
    assert [tuple(tensor.shape) for tensor in found] == shapes
    for position, tolerance in ((0, 1e-12), (1, 1e-5), (3, 2e-2)):
        correct = expected(values[position])
        np.testing.assert_allclose(
            tf.cast(found[position], tf.float64), correct, rtol=tolerance, atol=tolerance
        )
    assert kf.ops.group_adasum([]) == []


def case_peers_that_differ():
    if kf.size() == 1:
        return  # nobody differs
    shape = [2, 3] if kf.rank() == 0 else [3, 2]
    with pytest.raises(tf.errors.InvalidArgumentError):
        kf.ops.adasum(tf.ones(shape))
    with pytest.raises(kf.errors.UnsupportedTypeError, match="floating tensors, not int32"):
        kf.ops.adasum(tf.constant([1]))


def case_a_group():
    ranks = [*range(0, kf.size(), 2)]
    group = kf.Group(ranks)
    if kf.rank() in ranks:
        values = [vectors(kf.size())[rank] for rank in ranks]
        mine = tf.constant(vectors(kf.size())[kf.rank()])
        np.testing.assert_allclose(kf.ops.adasum(mine, group=group), expected(values), rtol=1e-12)
    kf.barrier()
