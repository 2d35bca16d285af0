"""Dealing whole variables to owners."""

from __future__ import annotations

import itertools

import numpy as np

from kungfu_tf.exchange.owners import deal


def test_the_largest_come_first() -> None:
    assert deal([1, 8, 5, 4], 2) == [0, 0, 1, 1]
    assert deal([3, 3, 3], 2) == [0, 1, 0]
    assert deal([7, 0], 3) == [0, 1]
    assert deal([], 2) == []


def test_no_owner_has_much_more_than_its_part() -> None:
    random = np.random.default_rng(1)
    for owners, count in itertools.product((1, 2, 3, 7), (1, 5, 40)):
        sizes = [int(size) for size in random.integers(1, 1000, count)]
        loads = np.bincount(deal(sizes, owners), weights=sizes, minlength=owners)
        assert loads.sum() == sum(sizes)
        assert loads.max() <= sum(sizes) / owners + max(sizes)
