"""Inputs of collectives: conversion, and the types of the table in `kungfu_tf.ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import errors

REDUCTIONS = ("sum", "mean", "min", "max", "prod")

_FLOATING = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
_SIGNED = (tf.int8, tf.int16, tf.int32, tf.int64)
_UNSIGNED = (tf.uint8, tf.uint16, tf.uint32, tf.uint64)
_COMPLEX = (tf.complex64, tf.complex128)
_MOVABLE = (*_FLOATING, *_SIGNED, *_UNSIGNED, *_COMPLEX, tf.bool)


def to_tensor(value: Any, what: str) -> Any:
    """`value` as a dense tensor that can be sent.

    Args:
        value: A tensor, a variable, a NumPy array, a number or nested lists of numbers.
        what: The operation, for the message.

    Raises:
        UnsupportedTypeError: If it is not dense, or its elements cannot be sent.
    """
    if isinstance(value, (tf.IndexedSlices, tf.SparseTensor, tf.RaggedTensor)):
        raise errors.UnsupportedTypeError(
            f"{what}: {label(value)} is a {type(value).__name__}, and a dense tensor is needed"
        )
    tensor = tf.convert_to_tensor(value)
    check_dtype(tensor.dtype, label(value), what)
    return tensor


def check_dtype(dtype: tf.DType, whose: str, what: str) -> None:
    """Raises UnsupportedTypeError unless elements of this type can be sent."""
    if dtype.base_dtype not in _MOVABLE:
        raise errors.UnsupportedTypeError(
            f"{what}: {whose} has dtype {dtype.name}, which cannot travel between peers"
        )


def check_reduction(tensor: Any, op: str, what: str, value: Any = None) -> None:
    """Checks that `op` is defined for the elements of `tensor`.

    Args:
        tensor: A tensor.
        op: "sum", "mean", "min", "max" or "prod".
        what: The operation, for the message.
        value: The caller's value that `tensor` was made from, if it is another.

    Raises:
        InvalidArgumentError: If there is no such `op`.
        UnsupportedTypeError: If it is not defined for this type.
    """
    if op not in REDUCTIONS:
        raise errors.InvalidArgumentError(f"{what}: op '{op}' is none of {', '.join(REDUCTIONS)}")
    dtype = tensor.dtype.base_dtype
    remedy = None
    if dtype == tf.bool and op not in ("min", "max"):
        remedy = "use min (all) or max (any), or cast"
    elif dtype in _COMPLEX and op in ("min", "max"):
        remedy = "complex numbers have no order"
    if remedy:
        named = label(tensor if value is None else value)
        raise errors.UnsupportedTypeError(
            f"{what}: {op} is not defined for {named} of dtype {dtype.name}: {remedy}"
        )


def check_fractions(tensor: Any, what: str, value: Any = None) -> None:
    """Raises UnsupportedTypeError unless the elements of `tensor` may have fractions.

    Args:
        tensor: A tensor.
        what: What needs them, for the message.
        value: The caller's value that `tensor` was made from, if it is another.
    """
    dtype = tensor.dtype.base_dtype
    if dtype not in (*_FLOATING, *_COMPLEX):
        named = label(tensor if value is None else value)
        raise errors.UnsupportedTypeError(
            f"{what} is not defined for {named} of dtype {dtype.name}: cast to a floating type"
        )


def label(value: Any) -> str:
    """What messages call a tensor: its name if it has one, else its shape."""
    if isinstance(value, tf.IndexedSlices):
        return label(value.values)
    try:
        return f"'{value.name}'"
    except (AttributeError, ValueError):  # eager tensors have none
        return f"the tensor of shape {getattr(value, 'shape', ())}"
