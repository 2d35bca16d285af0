"""kungfu_tf, for the programs that run on several systems."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import kungfu_tf as kf
from kungfu_tf.native import libraries

rank, size = kf.rank, kf.size
scope = contextlib.nullcontext
averages = True
may_loop = True
optimizer = kf.optimizers.SynchronousSGDOptimizer


def run(function: Callable[[], Any]) -> Any:
    return function()


def mean(tensors: list[Any], name: str) -> list[Any]:
    return kf.ops.group_all_reduce(tensors, op="mean", name=name)


def bytes_sent() -> int:
    """To other processes, over connections. What is written into their memory does not count."""
    statistics = libraries.Statistics()
    libraries.core().kungfu_get_statistics(ctypes.byref(statistics))
    return int(statistics.bytes_sent)
