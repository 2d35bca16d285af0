"""Smaller numbers for the way."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class Compressor:
    """What makes a tensor smaller, and large again."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The smaller tensor, and what `decompress` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor in its own form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor itself."""
        del ctx
        return tensor


class FP16Compressor(Compressor):
    """Makes floating numbers float16."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor in float16, if it is floating, and its own dtype."""
        dtype = tensor.dtype
        return (tf.cast(tensor, tf.float16) if dtype.is_floating else tensor), dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor in its own dtype."""
        return tf.cast(tensor, ctx) if ctx.is_floating else tensor


class Compression:
    """The choice of them."""

    none = NoneCompressor
    fp16 = FP16Compressor
