"""Vectors of float32 as rows of bytes: whole numbers of few bits, and a scale for each block."""

from __future__ import annotations

from typing import Any

from kungfu_tf.ops import kernels


def quantize(values: Any, seed: Any, *, block: int, bits: int) -> Any:
    """A row for each block of the values, the last of which is filled up with zeros.

    Args:
        values: A vector, float32.
        seed: From which the random rounding follows, an int64 scalar.
        block: The number of elements of a block; even, if they have 4 bits.
        bits: Of an element: 4 or 8.

    Returns:
        uint8, [rows, block·bits/8 + 4].
    """
    return kernels.library().kungfu_quantize(values, seed, block=block, bits=bits)


def dequantize(rows: Any, parts: Any, *, block: int, bits: int) -> Any:
    """The mean over parts of what their rows stand for.

    Args:
        rows: As `quantize` returns them, of all parts, one behind the other; as many of each.
        parts: The number of parts, an int32 scalar from 1.
        block: As for `quantize`.
        bits: As for `quantize`.

    Returns:
        A vector, float32: the elements of all blocks of a part.
    """
    return kernels.library().kungfu_dequantize(rows, parts, block=block, bits=bits)
