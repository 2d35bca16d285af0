"""Groups of one to five peers, by definition: each dtype with each thing that is done in a group.

cases_collectives.py and cases_groups.py have the operations of one tensor.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each, exhaustive
from support import arrays, reduced

import kungfu_tf as kf
from kungfu_tf.compression import Cast

JOBS = [{"np": 5}]

RANKS = {1: (4,), 2: (0, 3), 3: (1, 2, 4), 4: (0, 1, 3, 4), 5: (0, 1, 2, 3, 4)}
GROUPS = {size: kf.Group(ranks) for size, ranks in RANKS.items()}
MODES = {"eager": lambda f: f, "function": lambda f: tf.function(f, autograph=False)}
RATE = 0.25
OPTIONS = {
    "mean": {},
    "sum": {"op": "sum"},
    "predivide": {"predivide": 4},
    "cast": {"compression": Cast("bfloat16")},
}
BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}

SIZES = [1, 2, 3, 4, 5]
BOTH = ["eager", "function"]
FLOATING = ["float16", "bfloat16", "float32", "float64"]
INTEGER = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
NUMBERS = [*FLOATING, *INTEGER, "complex64", "complex128"]
TYPES = [*NUMBERS, "bool"]
DAILY_SIZES = [1, 3]
DAILY = ["bfloat16", "int32"]


def others(size):
    """Whether this peer has nothing to do."""
    return not GROUPS[size].included


def of_members(size, dtype, **shape):
    """What each member has, and what this one has."""
    values = arrays(dtype, **shape)
    return [values[rank] for rank in RANKS[size]], values[kf.rank()]


def equal(results, expected):
    for result, array in zip(results, expected, strict=True):
        found = np.asarray(result)
        assert found.dtype == array.dtype and found.shape == array.shape, (found, array)
        np.testing.assert_array_equal(found, array)


def cut(values, size):
    """For each member what it gets of each value: parts as even as can be."""
    return [[np.array_split(value, size)[me] for value in values] for me in range(size)]


@each(size=SIZES, dtype=TYPES, mode=BOTH)
@exhaustive(size=DAILY_SIZES, dtype=DAILY, mode=["function"])
def case_rows_and_where_they_come_from(size, dtype, mode):
    """Member m sends m + to + 1 rows to member `to`, and gets none of what is left out."""
    if others(size):
        return
    me, group = GROUPS[size].rank(), GROUPS[size]
    counts = [[(m + to + 1) % 4 for to in range(size)] for m in range(size)]
    sent_by = dict(zip(RANKS[size], map(sum, counts), strict=True))
    x, mine = of_members(size, dtype, rows=[sent_by.get(rank, 0) for rank in range(kf.size())])
    parts = [np.split(a, np.cumsum(c)[:-1]) for a, c in zip(x, counts, strict=True)]
    from_whom = np.array([c[me] for c in counts], np.int64)
    received = np.concatenate([part[me] for part in parts])

    @MODES[mode]
    def run(t):
        options = {"return_splits": True, "group": group}
        rows, lengths = kf.ops.all_to_all(t, splits=counts[me], **options)
        back, _ = kf.ops.all_to_all(rows, splits=lengths, **options)
        both = kf.ops.group_all_to_all([t, t[:, 0]], splits=[counts[me]] * 2, **options)
        return rows, lengths, back, *both[0], *both[1]

    expected = [received, from_whom]
    equal(run(mine), [*expected, mine, *expected, received[:, 0], from_whom])


@each(size=SIZES, dtype=TYPES, mode=BOTH)
@exhaustive(size=DAILY_SIZES, dtype=DAILY, mode=["function"])
def case_many_that_move(size, dtype, mode):
    if others(size):
        return
    me, group = GROUPS[size].rank(), GROUPS[size]
    x, mine = of_members(size, dtype)
    uneven, mine_of_uneven = of_members(size, dtype, rows=[2, 0, 3, 1, 4])

    @MODES[mode]
    def run(t, u):
        return (
            *kf.ops.group_all_gather([t, t[0]], group=group),
            *kf.ops.group_all_gather([u, t[0, 0]], concat=True, group=group),
            *kf.ops.group_all_to_all([t, tf.transpose(t)], group=group),
            *kf.ops.group_broadcast([t, None, t[1]], root=size - 1, group=group)[::2],
        )

    stacked = np.stack(x)
    exchanged = zip(*[cut([a, a.T], size)[me] for a in x], strict=True)
    expected = [stacked, stacked[:, 0], np.concatenate(uneven), stacked[:, 0, 0]]
    expected += [*map(np.concatenate, exchanged), x[-1], x[-1][1]]
    equal(run(mine, mine_of_uneven), expected)


@each(size=SIZES, dtype=NUMBERS, mode=BOTH)
@exhaustive(size=DAILY_SIZES, dtype=DAILY, mode=["function"])
def case_many_that_are_added_up(size, dtype, mode):
    """With factors, of which the sums of these small numbers are multiples."""
    if others(size):
        return
    me, group = GROUPS[size].rank(), GROUPS[size]
    x, mine = of_members(size, dtype)
    factors = {"prescale": 2.0, "postscale": 0.5, "group": group}

    @MODES[mode]
    def run(t):
        return (
            *kf.ops.group_all_reduce([t, None, t[0]], **factors)[::2],
            *kf.ops.group_reduce_scatter([t, tf.transpose(t)], **factors),
            kf.ops.all_reduce(t, **factors),
            kf.ops.reduce_scatter(t, **factors),
        )

    total = reduced("sum", x)
    parts = cut([total, total.T], size)[me]
    equal(run(mine), [total, total[0], *parts, total, parts[0]])


@each(size=SIZES, dtype=TYPES)
@exhaustive(size=DAILY_SIZES, dtype=DAILY)
def case_objects(size, dtype):
    """Arrays, in what travels without a pickle."""
    if others(size):
        return
    x, mine = of_members(size, dtype, rows=[2, 0, 3, 1, 4])
    found = kf.all_gather_object({"rank": kf.rank(), "x": [mine]}, group=GROUPS[size])
    assert [each_one["rank"] for each_one in found] == list(RANKS[size])
    equal([each_one["x"][0] for each_one in found], x)
    for root in range(size):
        equal(kf.broadcast_object((mine,), root=root, group=GROUPS[size]), [x[root]])


@each(size=SIZES, dtype=TYPES)
@exhaustive(size=DAILY_SIZES, dtype=DAILY)
def case_variables(size, dtype):
    """Not on the other peers, which have the same."""
    x, mine = of_members(size, dtype)
    variables = [tf.Variable(mine), tf.Variable(mine[0])]
    if not others(size):
        kf.initializer.broadcast_variables(variables, root=size - 1, group=GROUPS[size])
        mine = x[-1]
    equal(variables, [mine, mine[0]])


@each(size=SIZES, dtype=FLOATING, how=["mean", "sum", "predivide", "cast"], mode=BOTH)
@exhaustive(size=DAILY_SIZES, dtype=["bfloat16"], mode=["function"])
def case_training(size, dtype, how, mode):
    """A step by a tape, and one by an optimizer: of small numbers, exactly up to the mean."""
    if others(size):
        return
    x, mine = of_members(size, dtype)
    options = {**OPTIONS[how], "group": GROUPS[size]}
    expected = sum(a.astype(np.float64) for a in x) / (1 if how == "sum" else size)
    w, v = (tf.Variable(tf.zeros(mine.shape, dtype)) for _ in range(2))
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(RATE)
    optimizer = kf.optimizers.SynchronousSGDOptimizer(optimizer, **options)

    @MODES[mode]
    def step(t):
        with kf.DistributedGradientTape(tf.GradientTape(), **options) as tape:
            loss = tf.reduce_sum(w * t)
        gradient = tape.gradient(loss, w)
        optimizer.apply_gradients([(t, v)])
        return gradient

    gradient = step(mine)
    bits = min(BITS[dtype], 8 if how == "cast" else 53)
    tolerance = 2.0**-bits if size in (3, 5) else 0
    for found, value in ((gradient, expected), (v, -RATE * expected)):
        assert found.dtype == tf.as_dtype(dtype)
        found = tf.cast(found, tf.float64)
        np.testing.assert_allclose(found, value, rtol=tolerance, atol=0)


@each(dtype=NUMBERS, mode=BOTH)
@exhaustive(dtype=DAILY, mode=["function"])
def case_who_is_left_when_some_have_joined(dtype, mode):
    """Rank r takes r + 1 steps: five peers take the first one, and one the last."""

    @MODES[mode]
    def step(t):
        return kf.ops.group_all_reduce([t, t[0]])

    x = arrays(dtype)
    for number in range(kf.rank() + 1):
        total = reduced("sum", x[number:])
        equal(step(x[kf.rank()]), [total, total[0]])
    assert kf.data.join() == kf.size() - 1
