"""data.shard: who gets which elements."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.data.shard import deal

SIZES = [1, 2, 3, 4]


def of_unknown_length(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset.filter(lambda *element: True)


def parts(dataset: tf.data.Dataset, size: int, remainder: str = "drop") -> list[list[int]]:
    shards = [deal(dataset, rank, size, remainder) for rank in range(size)]
    return [[int(x) for x in shard.as_numpy_iterator()] for shard in shards]


@pytest.mark.parametrize("hide", [lambda d: d, of_unknown_length])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [4, 5, 6, 7, 12])
def test_whole_rounds_are_dealt_like_cards(hide, size, count):
    dealt = count - count % size
    expected = [list(range(rank, dealt, size)) for rank in range(size)]
    assert parts(hide(tf.data.Dataset.range(count)), size) == expected


@pytest.mark.parametrize("hide", [lambda d: d, of_unknown_length])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 4, 5, 7])
def test_repeat_fills_the_last_round_from_the_start(hide, size, count):
    rounds = -(-count // size)
    expected = [[i % count for i in range(rank, rounds * size, size)] for rank in range(size)]
    assert parts(hide(tf.data.Dataset.range(count)), size, "repeat") == expected


def test_keep_loses_nothing():
    assert parts(tf.data.Dataset.range(7), 3, "keep") == [[0, 3, 6], [1, 4], [2, 5]]


def test_infinite_datasets_stay_so():
    shard = deal(tf.data.Dataset.range(5).repeat(), 1, 2, "drop")
    assert shard.cardinality() == tf.data.INFINITE_CARDINALITY
    assert [int(x) for x in shard.take(5)] == [1, 3, 0, 2, 4]


@pytest.mark.parametrize("hide", [lambda d: d, of_unknown_length])
def test_every_step_of_all_peers_is_one_step_of_one_process(hide):
    """N peers × batch B see what one process sees with batch N·B, the smaller last one included."""
    size, batch = 4, 8
    samples = tf.data.Dataset.from_tensor_slices({"x": np.arange(100), "y": np.arange(100) ** 2})
    whole = list(samples.batch(size * batch))
    shards = [list(deal(hide(samples), rank, size, "drop").batch(batch)) for rank in range(size)]
    assert [len(shard) for shard in shards] == [len(whole)] * size
    for step, together in enumerate(whole):
        rows = [shard[step]["x"].numpy() for shard in shards]
        assert len({len(row) for row in rows}) == 1
        assert sorted(np.concatenate(rows)) == sorted(together["x"].numpy())
        for row, shard in zip(rows, shards, strict=True):
            np.testing.assert_array_equal(shard[step]["y"], row**2)


def test_batches_are_dealt_whole():
    batches = tf.data.Dataset.range(24).batch(4, drop_remainder=True)
    shard = deal(batches, 1, 3, "drop")
    assert shard.element_spec == batches.element_spec
    assert [list(map(int, b)) for b in shard] == [[4, 5, 6, 7], [16, 17, 18, 19]]


def test_elements_may_be_nested_and_ragged():
    rows = tf.ragged.constant([[1], [2, 3], [], [4, 5, 6]])
    words, numbers = np.array(["p", "q", "r", "s"]), np.array([1, 2, 3, 4])
    dataset = tf.data.Dataset.from_tensor_slices(({"a": rows, "b": words}, numbers))
    shard = deal(of_unknown_length(dataset), 1, 2, "drop")
    assert shard.element_spec == dataset.element_spec
    found = [(e["a"].numpy().tolist(), e["b"].numpy(), int(n)) for e, n in shard]
    assert found == [([2, 3], b"q", 2), ([4, 5, 6], b"s", 4)]


@pytest.mark.parametrize("hide", [lambda d: d, of_unknown_length])
def test_tuples_of_one_stay_tuples(hide):
    dataset = hide(tf.data.Dataset.from_tensor_slices((np.arange(4),)))
    shard = deal(dataset, 1, 2, "drop")
    assert shard.element_spec == dataset.element_spec
    assert [tuple(map(int, element)) for element in shard] == [(1,), (3,)]


def test_what_is_dropped_is_logged_once(caplog):
    with caplog.at_level(logging.WARNING):
        parts(tf.data.Dataset.range(11), 4)
    assert [r.getMessage() for r in caplog.records] == [
        "data.shard: the last 3 of 11 elements are used by no peer: 4 peers get 2 each"
    ]
    caplog.clear()
    parts(tf.data.Dataset.range(12), 4)
    assert not caplog.records
    parts(of_unknown_length(tf.data.Dataset.range(12)), 4)
    assert caplog.records[0].getMessage() == (
        "data.shard: the dataset's length is unknown; if it is not a multiple of 4, no peer uses "
        "the last elements, up to 3, of a pass"
    )


def test_in_a_tf1_graph():
    with tf.Graph().as_default():
        shard = deal(tf.data.Dataset.range(7), 2, 3, "drop")
        element = tf.compat.v1.data.make_one_shot_iterator(shard).get_next()
        with tf.compat.v1.Session() as session:
            found = [session.run(element) for _ in range(2)]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)
    assert found == [2, 5]


def test_too_few_elements():
    with pytest.raises(ValueError, match="3 elements are too few for 4 peers: remainder='keep'"):
        deal(tf.data.Dataset.range(3), 0, 4, "drop")


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"numpy\.ndarray.*from_tensor_slices"):
        kf.data.shard(np.zeros(3))
    with pytest.raises(ValueError, match="'pad'"):
        kf.data.shard(tf.data.Dataset.range(3), remainder="pad")


def test_without_the_launcher_it_is_the_dataset():
    dataset = tf.data.Dataset.range(3)
    assert kf.data.shard(dataset) is dataset
