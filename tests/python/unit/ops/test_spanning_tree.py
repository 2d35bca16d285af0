"""Spanning trees and turns, as plain Python makes them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf


def lightest_weight(weights: np.ndarray) -> float:
    """Of all trees: Kruskal's algorithm."""
    size = len(weights)
    group, total = list(range(size)), 0.0
    for weight, i, j in sorted(
        (weights[i, j], i, j) for i, j in itertools.combinations(range(size), 2)
    ):
        if group[i] != group[j]:
            group = [group[i] if g == group[j] else g for g in group]
            total += weight
    return total


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_the_tree_spans_all_and_weighs_least(size: int) -> None:
    weights = np.random.default_rng(size).uniform(size=(size, size))
    edges = kf.ops.global_minimum_spanning_tree(weights).numpy()
    assert edges.shape == (size - 1, 2) and edges.dtype == np.int32
    inside = {0}
    for parent, child in edges:
        assert parent in inside and child not in inside
        inside.add(child)
    both = (weights + weights.T) / 2
    total = sum(both[i, j] for i, j in edges)
    np.testing.assert_allclose(total, lightest_weight(both))


def test_equal_weights_make_a_star() -> None:
    edges = kf.ops.global_minimum_spanning_tree(np.ones([4, 4]))
    np.testing.assert_array_equal(edges, [[0, 1], [0, 2], [0, 3]])


def test_who_cannot_be_reached_is_reached_last() -> None:
    weights = np.array([[0, np.inf, 1], [np.inf, 0, np.nan], [1, np.nan, 0]])
    edges = kf.ops.global_minimum_spanning_tree(weights)
    np.testing.assert_array_equal(edges, [[0, 2], [0, 1]])


def test_in_graphs() -> None:
    weights = np.random.default_rng(5).uniform(size=(5, 5))
    eager = kf.ops.global_minimum_spanning_tree(weights)
    traced = tf.function(kf.ops.global_minimum_spanning_tree)(weights)
    np.testing.assert_array_equal(traced, eager)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = session.run(kf.ops.global_minimum_spanning_tree(weights))
    np.testing.assert_array_equal(result, eager)


def test_a_rectangle_is_refused() -> None:
    with pytest.raises(kf.errors.InvalidArgumentError, match=r"\(2, 3\)"):
        kf.ops.global_minimum_spanning_tree(np.zeros([2, 3]))


def test_one_peer_has_no_neighbours() -> None:
    np.testing.assert_array_equal(kf.ops.get_neighbour_mask(np.zeros([0, 2])), [False])


def test_turns() -> None:
    mask = [False, True, True, False, True]
    turns = [int(kf.ops.round_robin(mask, name="turns")) for _ in range(5)]
    assert turns == [1, 2, 4, 1, 2]
    assert int(kf.ops.round_robin([True, False], name="turns")) == 0
    assert int(kf.ops.round_robin([False, False], name="turns")) == -1
    assert int(kf.ops.round_robin([True, True], name="turns")) == 1
