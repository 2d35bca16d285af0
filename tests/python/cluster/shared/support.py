"""What cases have in common."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.native import libraries

# However much later one has imported TensorFlow: that is no matter of the job's own deadlines.
kf.ops.save_variable(tf.constant(0), name="here")
for _rank in range(kf.size()):
    kf.ops.request_variable(_rank, name="here", shape=[], dtype=tf.int32, timeout=80.0)
# The first operation of a session also agrees on a strategy, which counts as one.
kf.ops.all_reduce(0, name="first")


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def arrays(dtype: str, shape=(3, 5), rows=None) -> list[Any]:
    """What each peer has, as all peers know it: small integers, so that sums are exact.

    Args:
        dtype: Of the elements.
        shape: Of each array.
        rows: The length of the first dimension for each peer, if they differ.
    """
    random = np.random.default_rng(7)
    shapes = [shape] * kf.size() if rows is None else [(n, *shape[1:]) for n in rows]
    high = 2 if dtype == "bool" else 4
    return [random.integers(0, high, s).astype(numpy_dtype(dtype)) for s in shapes]


def reduced(op: str, all_arrays: list[Any]) -> Any:
    """The reduction, in the dtype of the arrays."""
    stacked = np.stack(all_arrays)
    if op == "mean":
        total = np.sum(stacked, axis=0).astype(np.complex128)
        total = total if np.iscomplexobj(stacked) else total.real
        return (total / len(all_arrays)).astype(stacked.dtype)
    function = {"sum": np.sum, "min": np.min, "max": np.max, "prod": np.prod}[op]
    return function(stacked, axis=0).astype(stacked.dtype)


def operations_done() -> int:
    """How many operations of this peer have been completed without error."""
    return libraries.statistics()["operations"]


def in_all_modes(function, *values) -> list[Any]:
    """The results of `function`, run eagerly, in a tf.function and in a TF1 graph.

    Each must run exactly one operation: a result that needed no peer is a failure.
    """
    before = operations_done()
    results = [np.asarray(function(*map(tf.constant, values)))]
    results.append(np.asarray(tf.function(function)(*map(tf.constant, values))))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        results.append(np.asarray(session.run(function(*map(tf.constant, values)))))
    done = operations_done() - before
    assert done == 3, done
    return results


def check(function, value, expected) -> None:
    """`function` of `value` is `expected`, bit for bit and with its dtype, in all modes."""
    for result in in_all_modes(function, value):
        assert result.dtype == expected.dtype, (result.dtype, expected.dtype)
        np.testing.assert_array_equal(result, expected)


def raised_by(error, function, *args) -> str:
    """The text of the `error` that `function` raises."""
    try:
        function(*args)
    except error as caught:
        return str(caught)
    raise AssertionError(f"{error.__name__} was not raised")


@contextlib.contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """What a logger, and those below it, say."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
