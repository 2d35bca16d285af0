"""Changes that wait for what a graph has to do first."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import kungfu_tf as kf

v1 = tf.compat.v1


def waits_for(changed: Any) -> set[Any]:
    """The reductions that run before a change."""
    return {op for op in changed.op.control_inputs if op.type == "KungfuAllReduce"}


def test_in_a_graph_a_change_waits_for_what_needs_no_input() -> None:
    with tf.Graph().as_default():
        given = kf.ops.all_reduce(v1.placeholder(tf.float32, []))
        batch = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
        read = kf.ops.all_reduce(batch + 1)
        plain = kf.ops.all_reduce(tf.constant(1.0))
        changed, _ = kf.ops.resize(v1.placeholder(tf.int32, []))
        assert waits_for(changed) == {plain.op}
        tree = kf.ops.set_tree(v1.placeholder(tf.int32, [None]))
        assert {given.op, read.op, plain.op} & set(tree.control_inputs) == {plain.op}


def test_in_a_function_a_change_waits_for_all_before_it() -> None:
    found = []

    @tf.function
    def step(x: Any) -> Any:
        kf.ops.all_reduce(x)
        changed, _ = kf.ops.resize(0)
        found.append(len(changed.op.control_inputs))
        return changed

    step.get_concrete_function(tf.constant(1.0))
    assert found == [1]
