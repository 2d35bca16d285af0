"""Collectives that outlive a step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import arrays, raised_by, reduced

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.ops import begun

JOBS = [{"np": 3}, {"np": 1}]
NEEDS_KERAS = False

MODES = {"eager": lambda function: function, "function": tf.function}


def begin(values, name, **options):
    kf.ops.begin_group_all_reduce(values, name=name, **options)


def specs_of(values):
    return [tf.TensorSpec.from_tensor(tf.convert_to_tensor(value)) for value in values]


@each(mode=["eager", "function"], op=["sum", "mean"])
def case_begun_in_one_step_and_ended_in_a_later_one(mode, op):
    """It has the values of its beginning. What has changed since is no matter."""
    small, other = arrays("float32", shape=(2, 3)), arrays("float64", shape=(4,))
    variable = tf.Variable(small[kf.rank()])
    mine = tf.constant(other[kf.rank()])
    name = f"begun-{mode}-{op}"

    @MODES[mode]
    def first():
        kf.ops.begin_group_all_reduce([variable, mine, variable + 1], op=op, name=name, step=3)
        variable.assign(tf.zeros([2, 3]))

    @MODES[mode]
    def second():
        return kf.ops.end_group_all_reduce(specs_of([variable, mine, variable]), name=name)

    for number in range(1, 4):
        variable.assign(small[kf.rank()])
        first()
        kf.ops.all_reduce(1.0, name="meanwhile")
        results = second()
        np.testing.assert_array_equal(results[0], reduced(op, small))
        np.testing.assert_array_equal(results[1], reduced(op, other))
        np.testing.assert_array_equal(results[2], reduced(op, [x + 1 for x in small]))
        assert libraries.completed(name) == number
        assert libraries.completed(f"{name}[1]") == number


@each(mode=["eager", "function"])
def case_neighbors_mix_meanwhile(mode):
    """With the matrix and the values of the beginning."""
    x = np.random.default_rng(2).normal(size=(kf.size(), 4))
    graph = kf.topology.one_peer_exponential()
    variable = tf.Variable(x[kf.rank()])
    name = f"begun-mixed-{mode}"

    @MODES[mode]
    def first(step):
        kf.ops.begin_group_neighbor_all_reduce([variable], topology=graph, step=step, name=name)
        variable.assign(tf.zeros([4], tf.float64))

    @MODES[mode]
    def second():
        return kf.ops.end_group_all_reduce([tf.TensorSpec([4], tf.float64)], name=name)

    for step in range(3):
        variable.assign(x[kf.rank()])
        first(tf.constant(step))
        kf.ops.all_reduce(1.0, name="meanwhile")
        row = graph.at(step, kf.size())[kf.rank()]
        order = [kf.rank(), *(rank for rank in range(kf.size()) if rank != kf.rank())]
        expected = sum(row[rank] * x[rank] for rank in order)
        np.testing.assert_array_equal(second()[0], expected)


def case_neighbors_that_do_not_fit():
    """Weights without ranks are seen at once, and other neighbours in the end."""
    wrong = {"self_weight": 1.0, "src_weights": ([], [1.0]), "dst_weights": []}
    begin = lambda: kf.ops.begin_group_neighbor_all_reduce([1.0], name="few", **wrong)  # noqa: E731
    assert "0 sources with 1 weights" in raised_by(tf.errors.InvalidArgumentError, begin)
    if kf.size() == 1:
        return
    graph = kf.topology.star() if kf.rank() else kf.topology.ring()
    kf.ops.begin_group_neighbor_all_reduce([1.0], topology=graph, name="graphs")
    end = lambda: kf.ops.end_group_all_reduce([tf.TensorSpec([])], name="graphs")  # noqa: E731
    assert "graphs" in raised_by(tf.errors.InvalidArgumentError, end)


def case_several_are_under_way():
    x = arrays("float32")
    for name in ("one", "another"):
        begin([x[kf.rank()]], name)
    for name in ("another", "one"):
        [result] = kf.ops.end_group_all_reduce(specs_of([x[0]]), name=name)
        np.testing.assert_array_equal(result, reduced("sum", x))


def case_what_was_not_begun_cannot_end():
    end = lambda: kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="nothing")  # noqa: E731
    text = raised_by(tf.errors.FailedPreconditionError, end)
    assert "'nothing' cannot end: it was not begun in this process" in text


def case_a_name_is_begun_once_at_a_time():
    begin([tf.zeros([2])], "once")
    text = raised_by(tf.errors.FailedPreconditionError, begin, [tf.zeros([2])], "once")
    assert "'once' was begun already" in text
    kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="once")
    begin([tf.zeros([2])], "once")
    kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="once")


@each(others=[[[3]], [[2], [2]]])
def case_other_tensors_than_were_begun(others):
    begin([tf.zeros([2])], "others")
    specs = [tf.TensorSpec(shape) for shape in others]
    end = lambda: kf.ops.end_group_all_reduce(specs, name="others")  # noqa: E731
    assert "other tensors" in raised_by(tf.errors.InvalidArgumentError, end)


@each(what=["shape", "step"])
def case_peers_that_differ(what):
    if kf.size() == 1:
        return
    last = kf.rank() == kf.size() - 1
    shape = [3] if what == "shape" and last else [2]
    begin([tf.zeros(shape)], f"differs/{what}", step=7 if what == "step" and last else 6)
    end = lambda: kf.ops.end_group_all_reduce([tf.TensorSpec(shape)], name=f"differs/{what}")  # noqa: E731
    text = raised_by(tf.errors.InvalidArgumentError, end)
    assert f"differs/{what}" in text and what in text, text


def case_dropped_ones_can_be_begun_anew():
    begin([tf.zeros([2])], "dropped/a")
    kf.barrier()
    begun.drop("dropped/")
    text = raised_by(
        tf.errors.FailedPreconditionError,
        lambda: kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="dropped/a"),
    )
    assert "was not begun" in text
    kf.barrier()
    begin([tf.ones([2])], "dropped/a")
    [result] = kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="dropped/a")
    np.testing.assert_array_equal(result, [kf.size()] * 2)


def case_a_change_of_the_strategy_waits_for_it():
    """A large one, which the new epoch would end in the middle."""
    mine = tf.fill([1 << 22], float(kf.rank()))
    begin([mine], "large")
    try:
        kf.ops.set_strategy("RING")
        [result] = kf.ops.end_group_all_reduce(specs_of([mine]), name="large")
        assert np.all(result == sum(range(kf.size())))
    finally:
        kf.ops.set_strategy("AUTO")


def case_a_group_has_names_of_its_own():
    if kf.size() < 3:
        return
    group = kf.Group([0, 2])
    begin([tf.ones([2])], "grouped")
    if group.included:
        begin([tf.ones([2])], "grouped", group=group)
        [result] = kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="grouped", group=group)
        np.testing.assert_array_equal(result, [2, 2])
    [result] = kf.ops.end_group_all_reduce([tf.TensorSpec([2])], name="grouped")
    np.testing.assert_array_equal(result, [3, 3])
