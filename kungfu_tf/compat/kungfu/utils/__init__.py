"""KungFu's helpers."""

from kungfu.utils.ema import EMA

__all__ = ["EMA"]
