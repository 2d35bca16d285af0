"""Large tensors lie in memory that the host's peers share, and are reduced there."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.native import libraries

JOBS = [{"np": 2}]
NEEDS_KERAS = False

COUNT = 1 << 20
BYTES = 4 * COUNT
LITTLE = BYTES // 16  # more than other threads take, or give back, at the same time


def reduced_directly() -> int:
    return libraries.statistics()["direct"]


def case_large_tensors_are_shared():
    before = libraries.statistics()
    x = tf.fill([COUNT], float(kf.rank() + 1))
    assert libraries.statistics()["shared_bytes"] >= before["shared_bytes"] + BYTES
    np.testing.assert_array_equal(kf.ops.all_reduce(x, name="shared"), np.full(COUNT, 3.0))
    assert reduced_directly() == before["direct"] + 1
    in_use = libraries.statistics()["shared_bytes"]
    del x
    assert libraries.statistics()["shared_bytes"] <= in_use - BYTES


def case_the_output_is_the_input():
    """Where nobody else needs the input there is never memory for both."""

    @tf.function(autograph=False)
    def run(x):
        return kf.ops.all_reduce(x + 1, name="in-place")

    x = tf.fill([COUNT], 1.0)
    for _ in range(3):
        tf.config.experimental.reset_memory_stats("CPU:0")
        before = tf.config.experimental.get_memory_info("CPU:0")["current"]
        result = run(x)
        peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
        np.testing.assert_array_equal(result, np.full(COUNT, 4.0))
        assert BYTES - LITTLE <= peak - before < 1.5 * BYTES, (before, peak)
        del result


def case_a_group_is_one_exchange():
    sizes = [1, 70000, 3, 0, 300000, 17, 64 << 10, 5]
    before = reduced_directly()
    results = kf.ops.group_all_reduce(
        [tf.fill([size], float(kf.rank())) for size in sizes], op="mean", name="shared-group"
    )
    for size, result in zip(sizes, results, strict=True):
        np.testing.assert_array_equal(result, np.full(size, 0.5))
    assert reduced_directly() == before + 1


def case_pages_are_used_again():
    before = libraries.statistics()["shared_bytes"]
    for i in range(200):
        x = kf.ops.all_reduce(tf.fill([COUNT], float(i)), name="again")
        assert libraries.statistics()["shared_bytes"] <= before + 4 * BYTES
    np.testing.assert_array_equal(x, np.full(COUNT, 398.0))


def case_tensorflow_sees_the_memory():
    x = tf.fill([COUNT], 1.0)
    now = tf.config.experimental.get_memory_info("CPU:0")
    assert BYTES <= now["current"] <= now["peak"]
    del x
    tf.config.experimental.reset_memory_stats("CPU:0")
    later = tf.config.experimental.get_memory_info("CPU:0")
    assert later["current"] <= now["current"] - BYTES + LITTLE
    assert later["peak"] < now["peak"]
