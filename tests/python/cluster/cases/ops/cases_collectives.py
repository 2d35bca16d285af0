"""Every collective and dtype against NumPy: eagerly, in a function, and in a TF1 graph."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each, exhaustive
from support import arrays, check, raised_by, reduced

import kungfu_tf as kf

JOBS = [{"np": 2}, {"np": 4}]
NEEDS_KERAS = False

FLOATING = ["float16", "bfloat16", "float32", "float64"]
INTEGER = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
COMPLEX = ["complex64", "complex128"]
NUMBERS = FLOATING + INTEGER + COMPLEX
BOOL = ["bool"]
TYPES = NUMBERS + BOOL
# TensorFlow's ops treat all numbers of one size alike; sums are the affair of the core's tests.
SOME = ["bool", "uint16", "int8", "int32", "int64", "float16", "bfloat16", "float32", "complex128"]


@each(dtype=NUMBERS, op=["sum", "prod"])
@exhaustive(dtype=SOME)
def case_all_reduce(dtype, op):
    x = arrays(dtype)
    check(lambda t: kf.ops.all_reduce(t, op=op), x[kf.rank()], reduced(op, x))


@each(dtype=NUMBERS)
@exhaustive(dtype=SOME)
def case_all_reduce_mean(dtype):
    x = arrays(dtype)
    check(lambda t: kf.ops.all_reduce(t, op="mean"), x[kf.rank()], reduced("mean", x))


@each(dtype=FLOATING + INTEGER + BOOL, op=["min", "max"])
@exhaustive(dtype=SOME)
def case_all_reduce_order(dtype, op):
    x = arrays(dtype)
    check(lambda t: kf.ops.all_reduce(t, op=op), x[kf.rank()], reduced(op, x))


def case_integer_sums_wrap():
    x = np.array([250, 7], np.uint8)
    expected = (x.astype(int) * kf.size() % 256).astype(np.uint8)
    check(kf.ops.all_reduce, x, expected)


@each(dtype=TYPES)
@exhaustive(dtype=SOME)
def case_broadcast(dtype):
    x = arrays(dtype)
    for root in range(kf.size()):
        check(lambda t, root=root: kf.ops.broadcast(t, root=root), x[kf.rank()], x[root])


@each(dtype=NUMBERS)
@exhaustive(dtype=SOME)
def case_reduce(dtype):
    x = arrays(dtype)
    root = kf.size() - 1
    expected = reduced("sum", x) if kf.rank() == root else np.zeros_like(x[0])
    check(lambda t: kf.ops.reduce(t, "sum", root=root), x[kf.rank()], expected)


@each(dtype=TYPES)
@exhaustive(dtype=SOME)
def case_all_gather(dtype):
    x = arrays(dtype)
    check(kf.ops.all_gather, x[kf.rank()], np.stack(x))


@each(dtype=TYPES)
@exhaustive(dtype=SOME)
def case_all_gather_ragged(dtype):
    x = arrays(dtype, rows=[3 * rank for rank in range(kf.size())])
    check(lambda t: kf.ops.all_gather(t, concat=True), x[kf.rank()], np.concatenate(x))


@each(dtype=TYPES)
@exhaustive(dtype=SOME)
def case_gather(dtype):
    x = arrays(dtype)
    root = kf.size() - 1
    expected = np.stack(x)[: kf.size() if kf.rank() == root else 0]
    check(lambda t: kf.ops.gather(t, root=root), x[kf.rank()], expected)


@each(dtype=NUMBERS)
@exhaustive(dtype=SOME)
def case_reduce_scatter(dtype):
    x = arrays(dtype, shape=(7, 2))
    expected = np.array_split(reduced("sum", x), kf.size())[kf.rank()]
    check(kf.ops.reduce_scatter, x[kf.rank()], expected)


@each(dtype=TYPES)
@exhaustive(dtype=SOME)
def case_all_to_all(dtype):
    x = arrays(dtype, shape=(7, 2))
    expected = np.concatenate([np.array_split(each, kf.size())[kf.rank()] for each in x])
    check(kf.ops.all_to_all, x[kf.rank()], expected)


@each(splits=[True, False])
def case_all_to_all_says_how_many_rows_came_from_whom(splits):
    """And so they can be sent back."""
    n = kf.size()
    sent = [[(rank + 2 * to) % 4 for to in range(n)] for rank in range(n)]
    x = arrays("int32", shape=(sum(sent[0]), 2), rows=[sum(each) for each in sent])
    counts = sent[kf.rank()] if splits else None
    if not splits:
        sent = [[len(part) for part in np.array_split(each, n)] for each in x]
    parts = [np.split(each, np.cumsum(s)[:-1])[kf.rank()] for each, s in zip(x, sent, strict=True)]
    lengths = np.array([len(part) for part in parts])

    def pick(i):
        return lambda t: kf.ops.all_to_all(t, splits=counts, return_splits=True)[i]

    check(pick(0), x[kf.rank()], np.concatenate(parts))
    check(pick(1), x[kf.rank()], lengths)
    there, from_whom = kf.ops.all_to_all(x[kf.rank()], splits=counts, return_splits=True)
    np.testing.assert_array_equal(kf.ops.all_to_all(there, splits=from_whom), x[kf.rank()])


@each(splits=[True, False])
def case_all_to_all_of_rows_without_elements(splits):
    n, mine = kf.size(), kf.rank()
    x = np.zeros((n * (mine + 1) if splits else n + 1, 0, 3), np.float32)
    counts = [mine + 1] * n if splits else None
    lengths = np.arange(n) + 1 if splits else np.full(n, 2 if mine == 0 else 1)

    def pick(i):
        return lambda t: kf.ops.all_to_all(t, splits=counts, return_splits=True)[i]

    check(pick(0), x, np.zeros((lengths.sum(), 0, 3), np.float32))
    check(pick(1), x, lengths)
    text = raised_by(
        tf.errors.InvalidArgumentError,
        lambda: kf.ops.all_to_all(x, splits=[1] * (n - 1) + [len(x)]),
    )
    assert "do not add up to all rows" in text


@each(dtype=TYPES)
@exhaustive(dtype=SOME)
def case_consensus(dtype):
    x = arrays(dtype)
    x[-1][0, 0] = not x[0][0, 0]
    check(kf.ops.consensus, x[0], np.array(True))
    check(kf.ops.consensus, x[kf.rank()], np.array(False))


@each(op=["sum", "mean", "prod"])
def case_bool_has_min_and_max_only(op):
    x = tf.constant([True])
    assert "bool" in raised_by(TypeError, lambda: kf.ops.all_reduce(x, op=op))


def case_empty_tensors():
    x = np.zeros((0, 3), np.float32)
    n = kf.size()
    check(kf.ops.all_reduce, x, x)
    check(kf.ops.broadcast, x, x)
    check(lambda t: kf.ops.reduce(t, "sum"), x, x)
    check(kf.ops.all_gather, x, np.zeros((n, 0, 3), np.float32))
    check(lambda t: kf.ops.all_gather(t, concat=True), x, x)
    check(kf.ops.reduce_scatter, x, x)
    check(
        kf.ops.reduce_scatter, np.zeros((n + 1, 0), np.int8), np.zeros((1 + is_first(), 0), np.int8)
    )
    check(kf.ops.all_to_all, x, x)
    check(kf.ops.consensus, x, np.array(True))


def is_first():
    return int(kf.rank() == 0)


def case_scalars():
    mine, n = np.float64(kf.rank()), kf.size()
    everybody = np.arange(n, dtype=np.float64)
    check(kf.ops.all_reduce, mine, everybody.sum())
    check(lambda t: kf.ops.broadcast(t, root=1), mine, everybody[1])
    check(lambda t: kf.ops.reduce(t, "sum"), mine, everybody.sum() * is_first())
    check(kf.ops.all_gather, mine, everybody)
    check(lambda t: kf.ops.all_gather(t, concat=True), mine, everybody)
    check(kf.ops.gather, mine, everybody[: n * is_first()])
    check(kf.ops.reduce_scatter, mine, everybody.sum(keepdims=True)[: is_first()])
    check(kf.ops.all_to_all, mine, everybody[: n * is_first()])


def case_gather_ragged():
    x = arrays("float32", rows=[rank + 1 for rank in range(kf.size())])
    expected = np.concatenate(x)[: None if kf.rank() == 1 else 0]
    check(lambda t: kf.ops.gather(t, root=1, concat=True), x[kf.rank()], expected)


def case_all_to_all_splits():
    # Rank i sends i + j rows to rank j.
    n, mine = kf.size(), kf.rank()
    splits = np.add.outer(np.arange(n), np.arange(n))
    x = arrays("int32", rows=splits.sum(axis=1))
    parts = [np.split(each, np.cumsum(row)[:-1])[mine] for each, row in zip(x, splits, strict=True)]
    check(lambda t: kf.ops.all_to_all(t, splits=splits[mine]), x[mine], np.concatenate(parts))


def case_numpy_lists_and_variables():
    n = kf.size()
    np.testing.assert_array_equal(kf.ops.all_reduce(np.ones(2, np.float32)), [n, n])
    np.testing.assert_array_equal(kf.ops.all_reduce([1, 2]), [n, 2 * n])
    np.testing.assert_array_equal(kf.ops.all_reduce(tf.Variable([3.0])), [3.0 * n])


def case_large_tensors_cross_chunks():
    x = np.arange(3_000_001, dtype=np.float32) % 1000 + kf.rank()
    expected = x * kf.size() + sum(range(kf.size())) - kf.rank() * kf.size()
    np.testing.assert_array_equal(kf.ops.all_reduce(tf.constant(x)), expected)
