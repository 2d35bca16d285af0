"""Eager programs that use ever new names, such as `step17/loss`."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from kungfu_tf import ops

KIB_PER_NAME = 4  # a kernel of TensorFlow, which stays for good, takes 35
OPERATIONS: dict[str, Callable[[Any, str], Any]] = {
    "all_reduce": lambda x, name: ops.all_reduce(x, name=name),
    "group_all_reduce": lambda x, name: ops.group_all_reduce([x, x], name=name),
    "broadcast": lambda x, name: ops.broadcast(x, name=name),
    "all_gather": lambda x, name: ops.all_gather(x, name=name),
    "barrier": lambda x, name: ops.barrier(name=name),
    "consensus": lambda x, name: ops.consensus(x, name=name),
}


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


@pytest.mark.parametrize(
    ("operation", "names"),
    [
        *((operation, 2000) for operation in OPERATIONS),
        pytest.param("all_reduce", 100_000, marks=pytest.mark.exhaustive),
    ],
)
def test_memory_does_not_grow_by_a_kernel_per_name(operation: str, names: int) -> None:
    run, x = OPERATIONS[operation], tf.constant([1.0, 2.0])
    for i in range(100):  # what TensorFlow and the allocator keep in any case
        run(x, f"before{i}/{operation}")
    before = resident_kib()
    for i in range(names):
        run(x, f"step{i}/{operation}")
    assert resident_kib() - before < names * KIB_PER_NAME


def test_an_eager_name_is_that_of_the_error() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="all_reduce 'kungfu/mine'"):
        ops.all_reduce(tf.constant(1.0), name="kungfu/mine")


@pytest.mark.parametrize("persistent", [False, True])
def test_the_gradient_of_an_eager_operation_has_its_name(persistent: bool) -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = tf.reduce_sum(3 * ops.all_reduce(x, name="mine") + ops.all_gather(x)[0])
    assert tape.gradient(y, x).numpy().tolist() == [4.0, 4.0]
