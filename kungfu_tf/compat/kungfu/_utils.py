"""Helpers by which KungFu's own programs time and print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from kungfu_tf import config

__all__ = ["map_maybe", "measure", "one_based_range", "show_duration"]


def measure(f: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the seconds that a function took, and its result."""
    began = time.perf_counter()
    result = f()
    return time.perf_counter() - began, result


def one_based_range(n: int) -> Iterable[int]:
    """The numbers from 1 to n."""
    return range(1, n + 1)


def map_maybe(f: Callable[[Any], Any], lst: Iterable[Any]) -> list[Any]:
    """Applies a function to each element; None stays."""
    return [None if x is None else f(x) for x in lst]


def show_duration(duration: float) -> str:
    """Seconds, for people: "1h 2m 3.00s"."""
    minutes, seconds = divmod(duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours}h"] * bool(hours) + [f"{minutes}m"] * bool(hours or minutes)
    return " ".join([*parts, f"{seconds:.2f}s"])


def _since_job_start() -> float:
    """Seconds since kungfu-run was started."""
    return time.time() - config.JOB_START.get()


def _since_proc_start() -> float:
    """Seconds since this peer was started."""
    return time.time() - config.PROC_START.get()


def _log_event(name: str) -> None:
    """Prints when something has happened."""
    print(f"TS={time.time():f} {name} :: {show_duration(_since_proc_start())} since proc started")
