"""naming: tags do not depend on what else a peer builds."""

from __future__ import annotations

import pytest
import tensorflow as tf

from kungfu_tf.ops.naming import make_tag


def tags_of(function, *args) -> list[str]:
    """The tags that `function` makes when it is traced; it gets a list to append to."""
    tags: list[str] = []
    function(tags, *args)
    return tags


def test_eager() -> None:
    assert make_tag("all_reduce", None) == "all_reduce"
    assert make_tag("all_reduce", None) == "all_reduce"
    assert make_tag("all_reduce", "mine") == "mine"


def trace(tags: list[str]) -> None:
    @tf.function
    def step(x):
        tags.append(make_tag("all_reduce", None))
        tags.append(make_tag("broadcast", None))
        tags.append(make_tag("all_reduce", None))
        return x

    step.get_concrete_function(tf.TensorSpec([]))
    step.get_concrete_function(tf.TensorSpec([2]))


def test_places_are_counted_for_each_trace() -> None:
    once = ["all_reduce/step/0", "broadcast/step/0", "all_reduce/step/1"]
    assert tags_of(trace) == 2 * once
    assert tags_of(trace) == 2 * once


def trace_names(tags: list[str]) -> None:
    @tf.function
    def step():
        tags.extend([make_tag("all_reduce", "x"), make_tag("broadcast", "x")])

    step.get_concrete_function()


def test_a_name_given_twice_is_made_two() -> None:
    assert tags_of(trace_names) == ["x", "x/1"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x", "x", "x/1"], ["x", "x/1", "x/1/1"]),
        (["x", "x/1", "x", "x"], ["x", "x/1", "x/2", "x/3"]),
        (["all_reduce/graph/0", None, "all_reduce/graph/1"], None),
    ],
)
def test_no_two_operations_have_one_tag(names, expected) -> None:
    with tf.Graph().as_default():
        tags = [make_tag("all_reduce", name) for name in names]
    assert len(set(tags)) == len(tags)
    assert expected is None or tags == expected


def trace_bodies(tags: list[str]) -> None:
    @tf.function(autograph=False)
    def step(x):
        def branch():
            tags.append(make_tag("all_reduce", None))
            return x

        def body(i):
            tags.append(make_tag("all_reduce", None))
            return tf.cond(i > 0, lambda: branch() + 1, lambda: i + 1)

        tf.cond(x > 0, branch, branch)
        tf.while_loop(lambda i: i < x, body, [x])
        return x

    step.get_concrete_function(tf.TensorSpec([], tf.int32))


def test_bodies_of_conds_and_loops() -> None:
    expected = [
        "all_reduce/step/0/0",
        "all_reduce/step/1/0",
        "all_reduce/step/2/0",
        "all_reduce/step/2/0/0",
    ]
    assert tags_of(trace_bodies) == expected
    with tf.name_scope("anything"):
        assert tags_of(trace_bodies) == expected


def trace_gradients(tags: list[str]) -> None:
    @tf.custom_gradient
    def marked(x):
        def gradient(dy):
            tags.append(make_tag("all_reduce", None))
            return dy

        return x, gradient

    @tf.function
    def forward(x):
        return marked(x)

    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = forward(x)
    tape.gradient(y, x)


def test_a_backward_function_has_no_number_in_its_name() -> None:
    first, second = tags_of(trace_gradients), tags_of(trace_gradients)
    assert first == second
    assert first
    assert all(tag.startswith("all_reduce/forward/") for tag in first)


def test_tf1_graphs() -> None:
    for _ in range(2):
        with tf.Graph().as_default():
            assert make_tag("gather", None) == "gather/graph/0"
            assert make_tag("gather", None) == "gather/graph/1"
            assert make_tag("gather", "named") == "named"
