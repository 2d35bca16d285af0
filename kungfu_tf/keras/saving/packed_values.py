"""The values of variables as bytes, in NumPy's format of several arrays."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def pack(variables: Sequence[Any]) -> bytes:
    """The values of these variables."""
    data = io.BytesIO()
    np.savez(data, *(variable.numpy() for variable in variables))
    return data.getvalue()


def unpack(data: bytes) -> list[Any]:
    """The values, in their order. Those of dtypes that are not NumPy's own are bytes."""
    return list(np.load(io.BytesIO(data)).values())


def fit(values: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Whether there is a value of the right shape for each variable."""
    return [value.shape for value in values] == [tuple(v.shape) for v in variables]


def assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Assigns to each variable its value. REQUIRES: they fit."""
    for variable, value in zip(variables, values, strict=True):
        dtype = tf.as_dtype(variable.dtype).as_numpy_dtype
        variable.assign(value.view(dtype) if value.dtype.kind == "V" else value)
