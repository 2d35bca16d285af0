"""tensors: the table of types, and messages that name the tensor."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.ops import tensors

FLOATING = ["float16", "bfloat16", "float32", "float64"]
INTEGER = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
COMPLEX = ["complex64", "complex128"]

ALLOWED = {
    **{dtype: {"sum", "mean", "min", "max", "prod"} for dtype in FLOATING + INTEGER},
    **{dtype: {"sum", "mean", "prod"} for dtype in COMPLEX},
    "bool": {"min", "max"},
}


@pytest.mark.parametrize("op", tensors.REDUCTIONS)
@pytest.mark.parametrize("dtype", ALLOWED)
def test_table(dtype: str, op: str) -> None:
    x = tf.zeros([2], dtype)
    if op in ALLOWED[dtype]:
        assert kf.ops.all_reduce(x, op=op).dtype == dtype
    else:
        with pytest.raises(errors.UnsupportedTypeError, match=dtype):
            kf.ops.all_reduce(x, op=op)


def test_unknown_op() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="'median' is none of sum"):
        kf.ops.all_reduce([1.0], op="median")


@pytest.mark.parametrize(
    "value",
    [
        tf.constant("text"),
        np.array(["text"]),
        tf.sparse.from_dense([1.0]),
        tf.ragged.constant([[1.0], []]),
        tf.quantization.quantize([1.0], 0.0, 1.0, tf.qint8).output,
    ],
    ids=["string", "numpy", "sparse", "ragged", "quantized"],
)
def test_what_cannot_travel(value: object) -> None:
    for function in (kf.ops.all_reduce, kf.ops.broadcast, kf.ops.consensus, kf.ops.all_gather):
        with pytest.raises(errors.UnsupportedTypeError, match="'it'"):
            function(value, name="it")


def test_the_tensor_is_named() -> None:
    variable = tf.Variable([True], name="mask")
    with pytest.raises(TypeError, match="'mask:0'"):
        kf.ops.all_reduce(variable)
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.string, name="words")
        with pytest.raises(TypeError, match="'words:0'"):
            kf.ops.group_all_reduce([tf.zeros([1]), x])


def test_indexed_slices_where_they_have_no_meaning() -> None:
    slices = tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([0]), tf.constant([4, 2]))
    for function in (kf.ops.broadcast, kf.ops.all_gather, kf.ops.consensus):
        with pytest.raises(TypeError, match="IndexedSlices"):
            function(slices)
    with pytest.raises(TypeError, match="IndexedSlices"):
        kf.ops.reduce(slices, "sum")
