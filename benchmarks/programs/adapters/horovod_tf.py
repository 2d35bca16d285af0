"""Horovod, for the programs that run on several systems."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd

hvd.init()
rank, size = hvd.rank, hvd.size
scope = contextlib.nullcontext
averages = True
may_loop = True


def optimizer(inner: Any) -> Any:
    return hvd.DistributedOptimizer(inner)


def run(function: Callable[[], Any]) -> Any:
    return function()


def mean(tensors: list[Any], name: str) -> list[Any]:
    return hvd.grouped_allreduce(tensors, op=hvd.Average, name=name)
