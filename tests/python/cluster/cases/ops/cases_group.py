"""Groups of tensors, IndexedSlices, and what may be mixed in them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import arrays, check, operations_done, raised_by, reduced

import kungfu_tf as kf
from kungfu_tf.native import libraries

JOBS = [{"np": 3}]
NEEDS_KERAS = False


def in_a_function(function):
    return tf.function(function, autograph=False)


def as_is(function):
    return function


MODES = {"eager": as_is, "function": in_a_function}


@each(mode=["eager", "function"])
def case_mixed_group(mode):
    small = arrays("float32", shape=(2, 3))
    other = arrays("float32", shape=())
    whole = arrays("float64", shape=(4,))
    mine = kf.rank()

    @MODES[mode]
    def run():
        values = [small[mine], None, tf.constant(whole[mine]), other[mine]]
        return kf.ops.group_all_reduce(values, op="mean", name=f"mixed-{mode}", step=7)

    before = operations_done()
    results = run()
    assert operations_done() - before == 2  # one for each dtype
    assert libraries.completed(f"mixed-{mode}") == 1
    assert libraries.completed(f"mixed-{mode}[2]") == 1
    assert results[1] is None
    np.testing.assert_array_equal(results[0], reduced("mean", small))
    np.testing.assert_array_equal(results[2], reduced("mean", whole))
    np.testing.assert_array_equal(results[3], reduced("mean", other))


@each(mode=["eager", "function"])
def case_group_broadcast(mode):
    x = arrays("int32")
    y = arrays("bool", shape=(2,))
    root = kf.size() - 1

    @MODES[mode]
    def run():
        return kf.ops.group_broadcast([x[kf.rank()], None, y[kf.rank()]], root=root)

    results = run()
    np.testing.assert_array_equal(results[0], x[root])
    assert results[1] is None
    np.testing.assert_array_equal(results[2], y[root])


def case_group_of_nothing():
    assert kf.ops.group_all_reduce([]) == []
    assert kf.ops.group_all_reduce([None, None]) == [None, None]


def case_group_of_many_in_a_tf1_graph():
    x = [arrays("float64", shape=(i % 7,)) for i in range(200)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fetches = kf.ops.group_all_reduce([tf.constant(each[kf.rank()]) for each in x])
        results = session.run(fetches)
    for result, each_array in zip(results, x, strict=True):
        np.testing.assert_array_equal(result, reduced("sum", each_array))


def slices(rows, dtype="float32"):
    """This peer's slices: `rows` rows of a matrix of 10 rows, the peer's rank in each element."""
    value = tf.cast(tf.fill([rows, 3], kf.rank() + 1), dtype)
    return tf.IndexedSlices(value, tf.range(rows) + kf.rank(), tf.constant([10, 3]))


def dense_of_all(rows_of, dtype):
    result = np.zeros((10, 3), dtype)
    for rank in range(kf.size()):
        for row in range(rows_of(rank)):
            result[row + rank] += rank + 1
    return result


@each(op=["sum", "mean"], mode=["eager", "function"], dtype=["float32", "float64"])
def case_indexed_slices(op, mode, dtype):
    def rows_of(rank):
        return 2 * rank  # rank 0 has none

    @MODES[mode]
    def run():
        result = kf.ops.all_reduce(slices(rows_of(kf.rank()), dtype), op=op)
        assert isinstance(result, tf.IndexedSlices)
        return tf.convert_to_tensor(result)

    expected = dense_of_all(rows_of, dtype) / (kf.size() if op == "mean" else 1)
    # Each slice is divided, the sum of slices is not: they round differently.
    np.testing.assert_allclose(run(), expected, rtol=1e-6)


def case_indexed_slices_in_a_group():
    x = arrays("float32")
    dense, sparse = kf.ops.group_all_reduce([x[kf.rank()], slices(2)])
    np.testing.assert_array_equal(dense, reduced("sum", x))
    np.testing.assert_array_equal(tf.convert_to_tensor(sparse), dense_of_all(lambda _: 2, "f4"))


@each(op=["min", "max", "prod"])
def case_indexed_slices_only_sum(op):
    assert "IndexedSlices" in raised_by(
        kf.errors.InvalidArgumentError, lambda: kf.ops.all_reduce(slices(1), op=op)
    )


def case_gradient_of_an_embedding():
    table = tf.Variable(np.ones((10, 3), np.float32))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [kf.rank(), 9]))
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    mean = tf.convert_to_tensor(kf.ops.all_reduce(gradient, op="mean"))
    expected = np.zeros((10, 3), np.float32)
    expected[: kf.size()] = 1 / kf.size()
    expected[9] += 1
    np.testing.assert_allclose(mean, expected)


def case_fuse_and_defuse():
    values = [tf.range(6.0)[:, None] + kf.rank(), tf.constant(2.0), tf.zeros([0, 4])]

    @tf.function
    def run():
        total = kf.ops.all_reduce(kf.ops.fuse(values))
        return kf.ops.defuse(total, [value.shape for value in values])

    n = kf.size()
    first, second, third = run()
    np.testing.assert_array_equal(first[:, 0], np.arange(6) * n + sum(range(n)))
    np.testing.assert_array_equal(second, 2 * n)
    assert third.shape == (0, 4)


def case_check_compares_bits():
    """`check` itself must fail on a wrong result: a sum for a mean, somebody's data shifted."""
    x = arrays("float32")
    raised_by(AssertionError, lambda: check(kf.ops.all_reduce, x[kf.rank()], reduced("mean", x)))
    shifted = reduced("sum", x) + np.eye(3, 5, dtype=np.float32)
    raised_by(AssertionError, lambda: check(kf.ops.all_reduce, x[kf.rank()], shifted))
