"""Counters and moving averages, and whose they are."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf

v1 = tf.compat.v1


def test_a_counter_begins_with_init() -> None:
    assert [int(kf.ops.counter(init=5, incr=-2, name="down")) for _ in range(3)] == [5, 3, 1]


def test_counters_of_one_name_are_one_and_those_of_a_graph_its_own() -> None:
    @tf.function
    def both():
        return kf.ops.counter(), kf.ops.counter(), kf.ops.counter(name="shared")

    @tf.function
    def other():
        return kf.ops.counter(name="shared")

    assert [int(x) for x in both()] == [0, 0, 0]
    assert int(other()) == 1
    gc.collect()
    assert [int(x) for x in both()] == [1, 1, 2]


def test_a_counter_in_branches_and_loops() -> None:
    @tf.function
    def step(n):
        total = tf.constant(0, tf.int64)
        for _ in tf.range(n):
            total += kf.ops.counter(init=1)
        return total

    assert int(step(tf.constant(3))) == 1 + 2 + 3
    assert int(step(tf.constant(2))) == 4 + 5


def test_in_a_tf1_graph() -> None:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        count = kf.ops.counter(init=1)
        average = kf.ops.exponential_moving_average(tf.cast(count, tf.float64), alpha=0.5)
        session.run(v1.global_variables_initializer())
        results = [session.run([count, average]) for _ in range(2)]
    assert [c for c, _ in results] == [1, 2]
    np.testing.assert_allclose([a for _, a in results], [1, (0.25 * 1 + 0.5 * 2) / 0.75])
    alive = weakref.ref(graph)
    del graph, session, count, average
    gc.collect()
    assert alive() is None


def test_the_average_is_that_of_numpy() -> None:
    values = np.random.default_rng(1).normal(size=(6, 3))
    weights = 0.9 ** np.arange(6)[::-1]
    for i, x in enumerate(values):
        y = kf.ops.exponential_moving_average(x, name="numpy")
        w = weights[5 - i :]
        np.testing.assert_allclose(y, (w[:, None] * values[: i + 1]).sum(axis=0) / w.sum())


def test_averages_are_told_apart_by_names() -> None:
    kf.ops.exponential_moving_average(1.0, name="mine")
    with pytest.raises(kf.errors.InvalidArgumentError, match=r"'mine'.* a name of its own"):
        kf.ops.exponential_moving_average([1.0, 2.0], name="mine")


@pytest.mark.parametrize("alpha", [-0.1, 1, 2])
def test_alpha_is_a_weight(alpha: float) -> None:
    with pytest.raises(ValueError, match=f"not {alpha}"):
        kf.ops.exponential_moving_average(1.0, alpha=alpha)


def test_only_numbers_with_fractions_have_averages() -> None:
    with pytest.raises(kf.errors.InvalidArgumentError, match="floating"):
        kf.ops.exponential_moving_average(1)
