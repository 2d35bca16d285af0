"""Gradients of some variables in one row for each dtype, as a parameter server gets them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Parcel:
    """The layout of the gradients of some variables. It is the same on all peers.

    Args:
        variables: `tf.Variable`s of known shapes.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self._shapes = [tuple(v.shape) for v in variables]
        self.places: dict[tf.DType, list[int]] = {}
        """The places of the variables of each dtype."""
        for i, variable in enumerate(variables):
            self.places.setdefault(variable.dtype.base_dtype, []).append(i)

    def length(self, dtype: tf.DType) -> int:
        """The number of elements of a row."""
        return sum(math.prod(self._shapes[i]) for i in self.places[dtype])

    def pack(self, gradients: Sequence[Any]) -> dict[tf.DType, Any]:
        """The rows of a push. Sparse gradients become dense."""
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return {
            dtype: tf.concat([tf.reshape(dense[i], [-1]) for i in places], axis=0)
            for dtype, places in self.places.items()
        }

    def unpack(self, rows: Sequence[Any]) -> list[Any]:
        """The gradients, in the order of the variables."""
        gradients: list[Any] = [None] * len(self._shapes)
        for row, places in zip(rows, self.places.values(), strict=True):
            parts = tf.split(row, [math.prod(self._shapes[i]) for i in places])
            for i, part in zip(places, parts, strict=True):
                gradients[i] = tf.reshape(part, self._shapes[i])
        return gradients
