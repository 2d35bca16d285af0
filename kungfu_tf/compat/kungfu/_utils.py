"""Helpers by which KungFu's own programs time and print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["map_maybe", "measure", "one_based_range", "show_duration", "show_rate", "show_size"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def measure(f: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the seconds that a function took, and its result."""
    began = time.perf_counter()
    result = f()
    return time.perf_counter() - began, result


def one_based_range(n: int) -> Iterable[int]:
    """The numbers from 1 to n."""
    return range(1, n + 1)


def map_maybe(f: Callable[[Any], Any], xs: Iterable[Any]) -> list[Any]:
    """Applies a function to each element; None stays."""
    return [None if x is None else f(x) for x in xs]


def show_size(n: float) -> str:
    """Bytes, for people: "1.50 MiB"."""
    exponent = 0
    while n >= 1024 and exponent < len(_UNITS) - 1:
        n, exponent = n / 1024, exponent + 1
    return f"{n:.2f} {_UNITS[exponent]}"


def show_rate(size: float, duration: float) -> str:
    """Bytes in seconds, for people: "1.50 MiB/s"."""
    return f"{show_size(size / duration)}/s"


def show_duration(duration: float) -> str:
    """Seconds, for people: "1h 2m 3.00s"."""
    minutes, seconds = divmod(duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours}h"] * bool(hours) + [f"{minutes}m"] * bool(hours or minutes)
    return " ".join([*parts, f"{seconds:.2f}s"])
