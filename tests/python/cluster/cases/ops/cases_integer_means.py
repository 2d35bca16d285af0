"""Means of integers in groups of one to five peers, by definition.

That is the exact sum, divided by the number of peers and cut off toward zero.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf

JOBS = [{"np": 5}]
NEEDS_KERAS = False

RANKS = {1: (4,), 2: (0, 3), 3: (1, 2, 4), 4: (0, 1, 3, 4), 5: (0, 1, 2, 3, 4)}
GROUPS = {size: kf.Group(ranks) for size, ranks in RANKS.items()}
MODES = {"eager": lambda f: f, "function": lambda f: tf.function(f, autograph=False)}
INTEGER = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]


def extremes(dtype, rank):
    """The largest, the smallest, and some around zero."""
    limits = np.iinfo(dtype)
    low = -3 if limits.min < 0 else 0
    row = [limits.max - rank, limits.min + rank, low + rank * rank, low * rank + 1]
    return np.array([row, row[::-1], [0, 1, 0, 1]], dtype)


def mean(arrays, size):
    """In numbers without end, of which sums of 64-bit integers keep 64 bits."""
    dtype = arrays[0].dtype
    total = sum(a.astype(object) for a in arrays)
    if dtype.itemsize == 8:
        low = int(np.iinfo(dtype).min)
        total = (total - low) % 2**64 + low
    magnitude = abs(total) // size
    return np.where(total < 0, -magnitude, magnitude).astype(dtype)


def equal(results, expected):
    for found, array in zip(map(np.asarray, results), expected, strict=True):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@each(size=[1, 2, 3, 4, 5], dtype=INTEGER, mode=["eager", "function", "graph"])
@exhaustive(size=[1, 2, 5], dtype=["int8", "uint32", "int64"], mode=["function"])
def case_every_operation(size, dtype, mode):
    if not GROUPS[size].included:
        return
    group, me = GROUPS[size], GROUPS[size].rank()
    x = [extremes(dtype, rank) for rank in RANKS[size]]
    given = {"op": "mean", "group": group}

    def run(t):
        return (
            kf.ops.all_reduce(t, **given),
            kf.ops.reduce(t, root=size - 1, **given),
            kf.ops.reduce_scatter(t, **given),
            kf.ops.subset_all_reduce(t, [0] * size, **given),
            *kf.ops.group_all_reduce([t, None, t[0]], **given)[::2],
            *kf.ops.group_reduce_scatter([t, tf.transpose(t)], **given),
        )

    if mode == "graph":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            results = session.run(run(tf.constant(x[me])))
    else:
        results = MODES[mode](run)(tf.constant(x[me]))
    means = mean(x, size)
    of_root = means if me == size - 1 else np.zeros_like(means)
    rows, columns = (np.array_split(each_mean, size)[me] for each_mean in (means, means.T))
    equal(results, [means, of_root, rows, means, means, means[0], rows, columns])


@each(size=[1, 2, 3, 4, 5], dtype=INTEGER, mode=["eager", "function"])
@exhaustive(size=[5], dtype=["int8", "uint64"], mode=["function"])
def case_sparse_rows(size, dtype, mode):
    """Those of one index are added before they are divided: cut off once."""
    if not GROUPS[size].included:
        return
    x = [extremes(dtype, rank) for rank in RANKS[size]]

    @MODES[mode]
    def run(t):
        rows = tf.IndexedSlices(t, tf.constant([7, 2, 7]))
        one = kf.ops.all_reduce(rows, op="mean", group=GROUPS[size])
        (other,) = kf.ops.group_all_reduce([rows], op="mean", group=GROUPS[size])
        return one.indices, one.values, other.indices, other.values

    of_index = {
        7: mean([a[i] for a in x for i in (0, 2)], size),
        2: mean([a[1] for a in x], size),
    }
    results = run(tf.constant(x[GROUPS[size].rank()]))
    for indices, values in (results[:2], results[2:]):
        equal(values, [of_index[i] for i in indices.numpy()])
        assert sorted(indices.numpy()) == [2, 7]


@each(dtype=INTEGER)
@exhaustive(dtype=["int8"])
def case_begun_in_one_step_and_ended_in_another(dtype):
    x = [extremes(dtype, rank) for rank in range(kf.size())]
    mine = tf.constant(x[kf.rank()])
    name = f"begun-{dtype}"
    kf.ops.begin_group_all_reduce([mine], op="mean", name=name)
    equal(kf.ops.end_group_all_reduce([tf.TensorSpec.from_tensor(mine)], name=name), [mean(x, 5)])


@each(dtype=INTEGER)
@exhaustive(dtype=["int16"])
def case_who_has_joined_counts_and_adds_nothing(dtype):
    x = [extremes(dtype, rank) for rank in range(kf.size())]
    if kf.rank() > 0:
        equal([kf.ops.all_reduce(x[kf.rank()], op="mean", name="all but 0")], [mean(x[1:], 5)])
    kf.data.join()


def case_factors():
    """Each is cut off where it is applied."""
    size, x = kf.size(), np.array([-7, 7], np.int32)
    result = kf.ops.all_reduce(
        tf.constant(x * (kf.rank() + 1)), op="mean", prescale=0.5, postscale=1.5
    )
    halves = [np.trunc(x * (rank + 1) / 2) for rank in range(size)]
    equal([result], [np.trunc(1.5 * np.trunc(sum(halves) / size)).astype(np.int32)])


def case_peers_with_other_integers():
    """They have the same values, and the same sum in 64 bits: still they differ."""
    mine = tf.constant([1, 2], tf.int8 if kf.rank() == 0 else tf.int32)
    text = raised_by(
        tf.errors.InvalidArgumentError, lambda: kf.ops.all_reduce(mine, op="mean", name="unlike")
    )
    assert "int8" in text and "int32" in text
    assert "bool" in raised_by(
        kf.errors.UnsupportedTypeError, lambda: kf.ops.all_reduce([True], op="mean")
    )
