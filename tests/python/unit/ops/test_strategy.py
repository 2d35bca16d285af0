"""Changes that wait for what a graph has to do first."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.upstream.graph import upstream

v1 = tf.compat.v1


def waits_for(change: Any) -> list[str]:
    """The names of the reductions that run before a change."""
    return [op.name for op in upstream([change]) if op.type == "KungfuAllReduce"]


def test_in_a_graph_a_change_waits_for_what_needs_no_input() -> None:
    with tf.Graph().as_default():
        kf.ops.all_reduce(v1.placeholder(tf.float32, []), name="given")
        batch = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
        kf.ops.all_reduce(batch + 1, name="read")
        plain = kf.ops.all_reduce(tf.constant(1.0), name="plain")
        changed, _ = kf.ops.resize(v1.placeholder(tf.int32, []))
        assert waits_for(changed.op) == [plain.op.name]
        assert waits_for(kf.ops.set_tree(tf.constant([0]))) == [plain.op.name]


def test_in_a_function_a_change_waits_for_all_before_it() -> None:
    @tf.function
    def step(x: Any) -> Any:
        kf.ops.all_reduce(x)
        return kf.ops.resize(0)

    graph = step.get_concrete_function(tf.constant(1.0)).graph
    (change,) = [op for op in graph.get_operations() if op.type == "KungfuResize"]
    assert len(waits_for(change)) == 1
