"""Gathers, scatters and exchanges of many tensors, by their definition."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import arrays, raised_by, reduced

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [{"np": 3}, {"np": 1}]
NEEDS_KERAS = False

GROUPS = {ranks: kf.Group(ranks) for ranks in [(0, 2)] if kf.size() == 3}
MODES = {"eager": lambda f: f, "function": lambda f: tf.function(f, autograph=False)}


def equal(results, expected):
    assert len(results) == len(expected)
    for result, array in zip(results, expected, strict=True):
        assert np.asarray(result).dtype == array.dtype
        np.testing.assert_array_equal(result, array)


@each(mode=["eager", "function"], of_group=[False, True])
def case_by_definition(mode, of_group):
    ranks = list(*GROUPS) if of_group and GROUPS else list(range(kf.size()))
    group = GROUPS[tuple(ranks)] if of_group and GROUPS else None
    if kf.rank() not in ranks:
        return
    me, size = ranks.index(kf.rank()), len(ranks)
    x = [arrays("float32")[r] for r in ranks]
    uneven = [arrays("int64", rows=[2, 0, 3][: kf.size()])[r] for r in ranks]
    mine = [x[me], uneven[me]]

    @MODES[mode]
    def run():
        cut = [[1] * (size - 1) + [4 - size], [0] * (size - 1) + [len(uneven[me])]]
        return (
            kf.ops.group_all_gather(mine, concat=True, group=group),
            kf.ops.group_all_gather([x[me], x[me][0]], group=group),
            kf.ops.group_reduce_scatter([x[me], x[me].T], prescale=0.5, group=group),
            kf.ops.group_all_to_all([x[me], x[me].T], group=group),
            kf.ops.group_all_to_all(mine, splits=cut, return_splits=True, group=group),
        )

    concatenated, stacked, scattered, exchanged, split = run()
    equal(concatenated, [np.concatenate(x), np.concatenate(uneven)])
    equal(stacked, [np.stack(x), np.stack(x)[:, 0]])
    total = reduced("sum", x) / 2
    equal(scattered, [np.array_split(each_total, size)[me] for each_total in (total, total.T)])
    parts = [
        [np.array_split(a, size)[me] for a in arrays_of] for arrays_of in (x, [a.T for a in x])
    ]
    equal(exchanged, [np.concatenate(part) for part in parts])
    (rows, from_whom), (rest, rest_from) = split
    begin, end = (me, me + 1) if me < size - 1 else (size - 1, 3)
    equal([rows], [np.concatenate([a[begin:end] for a in x])])
    equal([from_whom], [np.full(size, end - begin, np.int64)])
    last = me == size - 1
    equal([rest], [np.concatenate(uneven) if last else np.zeros((0, 5), np.int64)])
    equal([rest_from], [np.array([len(a) if last else 0 for a in uneven], np.int64)])


def case_none_at_all():
    assert kf.ops.group_all_gather([]) == []
    assert kf.ops.group_reduce_scatter([]) == []
    assert kf.ops.group_all_to_all([]) == []


def case_gradients():
    """Of a loss that is the sum of all rows that peers have."""
    x = tf.Variable(np.ones([6, 2]))
    with tf.GradientTape() as tape:
        gathered = kf.ops.group_all_gather([x, 2.0 * x])
        scattered = kf.ops.group_reduce_scatter([x], op="sum")
        loss = sum(tf.reduce_sum(value) for value in (*gathered, *scattered))
    np.testing.assert_array_equal(tape.gradient(loss, x), np.full([6, 2], 3.0 * kf.size() + 1))


def case_splits_that_are_not_as_many():
    text = raised_by(
        errors.InvalidArgumentError,
        lambda: kf.ops.group_all_to_all([1.0, 2.0], splits=[[1]], name="few"),
    )
    assert "group_all_to_all 'few': 1 splits for 2 tensors" in text
