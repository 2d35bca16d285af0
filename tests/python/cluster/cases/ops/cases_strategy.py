"""Strategies and trees that change while the program runs, and reductions of some peers alone."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
from harness import each
from support import check, raised_by

import kungfu_tf as kf
from kungfu_tf.monitor import measurements
from kungfu_tf.native import environment

JOBS = [{"np": 4}]
NEEDS_KERAS = False

STRATEGIES = environment.strategies()[1:]  # without AUTO
COUNT = 50_000
InvalidArgument = tf.errors.InvalidArgumentError
v1 = tf.compat.v1


def as_before(case):
    """Later cases find the strategy that is usual."""

    @functools.wraps(case)
    def run(**arguments):
        try:
            case(**arguments)
        finally:
            kf.ops.set_strategy("AUTO")

    return run


def eagerly(change, argument):
    assert change(argument) is None


def in_a_function(change, argument):
    @tf.function
    def run():
        change(argument)

    run()


def in_a_session(change, argument):
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(change(argument))


MODES = {"eager": eagerly, "function": in_a_function, "session": in_a_session}


def sum_of(step):
    """A sum of whole numbers, which no order of its operands changes."""
    mine = np.random.default_rng([kf.rank(), step]).integers(-99, 99, COUNT).astype("float32")
    return kf.ops.all_reduce(mine, name="weights").numpy()


@as_before
def case_switched_every_ten_steps():
    """The bits are those of a run without changes, and those of all other peers."""
    steps = 10 * len(STRATEGIES)
    expected = [sum_of(step) for step in range(steps)]
    for step in range(steps):
        if step % 10 == 0:
            kf.ops.set_strategy(STRATEGIES[step // 10])
        found = sum_of(step)
        np.testing.assert_array_equal(found, expected[step])
        assert kf.ops.consensus(found)
        assert measurements.strategy() == STRATEGIES[step // 10]


@each(mode=["eager", "function", "session"])
@as_before
def case_modes(mode):
    MODES[mode](kf.ops.set_strategy, "RING")
    expected = sum_of(0)
    assert measurements.strategy() == "RING"
    MODES[mode](kf.ops.set_tree, [2, 0, 2, 0])
    np.testing.assert_array_equal(sum_of(0), expected)
    assert measurements.strategy() == "TREE"


@as_before
def case_a_change_waits_for_what_came_before_it_in_the_graph():
    @tf.function
    def step(x):
        before = kf.ops.all_reduce(x, name="before")
        kf.ops.set_strategy("BINARY_TREE")
        return before

    for _ in range(5):
        np.testing.assert_array_equal(step(tf.ones([COUNT])), np.full(COUNT, kf.size()))


@as_before
def case_the_tree_of_the_shortest_ways():
    edges = kf.ops.global_minimum_spanning_tree(kf.ops.get_peer_latencies())
    tree = kf.ops.parents(edges).numpy()
    assert tree[0] == 0
    assert sorted(zip(tree[1:], range(1, kf.size()), strict=True)) == sorted(
        map(tuple, edges.numpy())
    )
    kf.ops.set_tree(tree)
    assert sum_of(0).shape == (COUNT,)


@each(tree=[[0, 1, 0, 0], [1, 0, 0, 0], [0, 2, 1, 0], [0, 0, 0], [0, 0, 0, 4]])
def case_what_is_no_tree(tree):
    """Two roots, none, a cycle, too few, a rank that is none: nothing changes."""
    text = raised_by(InvalidArgument, kf.ops.set_tree, tree)
    assert "tree: " in text
    assert measurements.strategy() not in ("TREE", "AUTO")
    sum_of(0)


def case_an_unknown_strategy():
    text = raised_by(InvalidArgument, kf.ops.set_strategy, "SQUARE")
    assert "SQUARE" in text
    assert "BINARY_TREE" in text


def case_peers_that_want_different_ones():
    strategy = "RING" if kf.rank() < 3 else "STAR"
    text = raised_by(InvalidArgument, kf.ops.set_strategy, strategy)
    assert f"a new epoch with strategy {strategy}" in text
    sum_of(0)


TOPOLOGY = [0, 3, 0, 3]  # 0 and 2; 1 and 3
OTHER = {0: 2, 1: 3, 2: 0, 3: 1}


@each(op=["sum", "mean", "max"])
def case_subsets(op):
    value = np.array([[1.0, kf.rank() + 1]], np.float32)
    other = np.array([[1.0, OTHER[kf.rank()] + 1]], np.float32)
    expected = {"sum": value + other, "mean": (value + other) / 2, "max": np.maximum(value, other)}
    check(lambda t: kf.ops.subset_all_reduce(t, TOPOLOGY, op=op), value, expected[op])
    check(lambda t: kf.ops.subset_all_reduce(t, [0, 1, 2, 3], op=op), value, value)


def case_subsets_have_gradients():
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = (kf.rank() + 1.0) * kf.ops.subset_all_reduce(x, TOPOLOGY, name="subset")
    assert tape.gradient(y, x) == kf.rank() + OTHER[kf.rank()] + 2


@each(topology=[[0, 0, 0], [0, 2, 1, 0], [[0, 0, 0, 0]]])
def case_what_is_no_forest(topology):
    text = raised_by(InvalidArgument, lambda: kf.ops.subset_all_reduce(1.0, topology, name="none"))
    assert "'none'" in text
    kf.ops.barrier()


def case_monitored_along_a_tree():
    x = tf.fill([COUNT], kf.rank() + 1.0)
    y = kf.ops.monitored_all_reduce(x, tree=[1, 1, 1, 1])
    np.testing.assert_array_equal(y, np.full(COUNT, 10.0))
    assert kf.ops.calc_stats() > 0
