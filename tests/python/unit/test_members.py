"""Which variables count as the same on several peers."""

from __future__ import annotations

import pytest
import tensorflow as tf

from kungfu_tf.exchange import union
from kungfu_tf.ops.members import identity


def named(*names: str) -> list[tf.Variable]:
    return [tf.Variable([1.0, 2.0], name=name) for name in names]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("dense/kernel", "dense_1/kernel"),
        ("dense_12/kernel_3", "dense_7/kernel"),
        ("model/dense/kernel", "dense/kernel"),
        ("conv2d/bias", "conv2d_4/bias"),
    ],
)
def test_a_peer_may_have_built_more(ours: str, theirs: str) -> None:
    assert identity(named(ours)) == identity(named(theirs))


@pytest.mark.parametrize(
    "theirs",
    [
        named("b", "a"),
        named("a"),
        named("a", "c"),
        [*named("a"), tf.Variable([[1.0, 2.0]], name="b")],
        [*named("a"), tf.Variable([1, 2], name="b")],
    ],
    ids=["order", "number", "name", "shape", "dtype"],
)
def test_others_differ(theirs: list[tf.Variable]) -> None:
    assert identity(named("a", "b")) != identity(theirs)


def test_so_do_other_codes() -> None:
    variables = named("a", "b")
    assert identity(variables, (1, 0)) != identity(variables, (0, 1))


def test_it_is_a_number_that_an_attribute_holds() -> None:
    assert all(0 <= identity(named(f"v{letter}")) < 1 << 31 for letter in "abcdefgh")


def test_tensors_have_no_names_and_may_differ_in_their_lengths() -> None:
    assert identity([tf.zeros([3])]) == identity([tf.ones([4])])
    assert identity([tf.zeros([3])]) != identity([tf.zeros([3], tf.float64)])


def test_a_process_that_is_alone_completes_nothing() -> None:
    variables = named("a", "b")
    gradients = [None, tf.ones([2])]
    completed = union.completed(gradients, variables, name="alone")
    assert completed[0] is None
    assert completed[1] is gradients[1]
