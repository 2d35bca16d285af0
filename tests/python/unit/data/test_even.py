"""Empty batches, the samples of a batch, and datasets of a process that is alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.data.empty import empty_batch, samples_of, stand_in
from kungfu_tf.data.even import Plan, prolong
from kungfu_tf.replicas import sample_weights

UNKNOWN = tf.data.UNKNOWN_CARDINALITY
INFINITE = tf.data.INFINITE_CARDINALITY


def dense(*shape: int | None, dtype: Any = tf.float32) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        (dense(None), [0]),
        (dense(32, 3), [0, 3]),
        (dense(None, None, 5, None, dtype=tf.string), [0, 1, 5, 1]),
        (tf.SparseTensorSpec([None, 7], tf.int64), [0, 7]),
        (tf.RaggedTensorSpec([None, None], tf.int32), [0, None]),
        (tf.RaggedTensorSpec([8, None, None, 3], tf.float16, ragged_rank=2), [0, None, None, 3]),
        (tf.RaggedTensorSpec([None, 4, None], tf.bool, row_splits_dtype=tf.int32), [0, None, None]),
        (tf.RaggedTensorSpec([None, 2], tf.uint8, ragged_rank=0), [0, 2]),
    ],
)
def test_an_empty_batch_has_no_samples(spec: Any, shape: list[int | None]) -> None:
    batch = empty_batch(spec)
    assert batch.dtype == spec.dtype
    assert batch.shape.as_list() == shape
    assert int(samples_of(batch)) == 0


def test_the_structure_is_kept() -> None:
    spec = ({"a": dense(None, 2), "b": (dense(None), tf.OptionalSpec(None))}, dense(4, 1))
    x, y = empty_batch(spec)
    assert x["a"].shape == [0, 2] and x["b"][0].shape == [0] and y.shape == [0, 1]
    assert isinstance(x["b"][1], tf.experimental.Optional)
    none = tf.data.Dataset.from_tensors((tf.zeros([1]), None)).element_spec
    assert empty_batch(none)[1] is None


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ({"x": {"image": dense()}}, ValueError, r"'x/image'.*scalar"),
        ((dense(None), tf.TensorSpec(None)), ValueError, r"'1'.*dimensions is unknown"),
        (tf.TensorSpec(None), ValueError, "the dataset's elements: the number"),
        ((tf.data.DatasetSpec(dense()),), TypeError, "'0'.*DatasetSpec"),
    ],
)
def test_what_cannot_be_empty_is_named(spec: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        empty_batch(spec)


@pytest.mark.parametrize(
    "batch",
    [
        tf.zeros([3, 2]),
        np.zeros([3, 2]),
        (tf.zeros([3]), tf.zeros([4])),
        ({"b": tf.zeros([3, 1]), "a": None}, tf.zeros([4])),
        (tf.ragged.constant([[1], [2, 3], []]), tf.zeros([4])),
        (tf.sparse.from_dense([[1, 0], [0, 0], [2, 0]]),),
    ],
)
def test_samples_are_the_first_dimension_of_x(batch: Any) -> None:
    assert samples_of(batch).dtype == tf.int64
    assert int(samples_of(batch)) == 3
    assert int(tf.function(samples_of)(batch)) == 3


@pytest.mark.parametrize("compiled", [True, False])
def test_something_stands_in_for_an_empty_batch_only(compiled: bool) -> None:
    specs = [
        dense(None, 3),
        tf.RaggedTensorSpec([None, None, None], tf.int32),
        tf.SparseTensorSpec([None, 2], tf.int32),
        dense(None, dtype=tf.string),
    ]

    def fill(parts: list[Any]) -> Any:
        batch = ({"first": parts[0], "none": None}, *parts[1:])
        return stand_in(batch, samples_of(batch))

    run = tf.function(fill, input_signature=[specs]) if compiled else fill
    ragged = tf.ragged.constant([[[1, 2]], [[3], [4, 5]]])
    sparse = tf.sparse.from_dense([[1, 0], [0, 2]])
    x, *others = run([tf.ones([2, 3]), ragged, sparse, tf.constant(["a", "b"])])
    assert x["first"].numpy().tolist() == [[1.0] * 3] * 2 and x["none"] is None
    assert others[0].to_list() == ragged.to_list()
    assert tf.sparse.to_dense(others[1]).numpy().tolist() == [[1, 0], [0, 2]]
    assert others[2].numpy().tolist() == [b"a", b"b"]

    x, *others = run([empty_batch(spec) for spec in specs])
    assert x["first"].numpy().tolist() == [[0.0] * 3] and x["none"] is None
    assert others[0].to_list() == [[[0]]]
    assert tf.sparse.to_dense(others[1]).numpy().tolist() == [[0, 0]]
    assert others[2].numpy().tolist() == [b""]


def elements(dataset: tf.data.Dataset) -> list[list[int]]:
    return [x.tolist() for x in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("drop_remainder", [True, False])
def test_a_dataset_is_prolonged_by_what_it_lacks(drop_remainder: bool) -> None:
    dataset = tf.data.Dataset.range(4).batch(2, drop_remainder=drop_remainder)
    prolonged = prolong(dataset, Plan("plan", (2, 5), same_sizes=False))
    assert int(prolonged.cardinality()) == 5
    for _ in range(2):
        assert elements(prolonged) == [[0, 1], [2, 3], [], [], []]


def test_components_of_all_kinds_are_prolonged() -> None:
    samples = {
        "ragged": tf.ragged.constant([[1], [2, 3], []]),
        "sparse": tf.sparse.from_dense([[1, 0], [0, 0], [2, 0]]),
        "text": tf.constant(["a", "b", "c"]),
    }
    dataset = tf.data.Dataset.from_tensor_slices(samples).batch(3)
    nothing = tf.data.Dataset.from_tensors(tf.experimental.Optional.empty(None)).repeat()
    dataset = tf.data.Dataset.zip((dataset, nothing)).take(1)
    (real, _), (empty, none) = prolong(dataset, Plan("plan", (1, 2), same_sizes=False))
    for name, component in samples.items():
        assert type(real[name]) is type(empty[name]) is type(component)
        assert (int(samples_of(real[name])), int(samples_of(empty[name]))) == (3, 0)
    assert not none.has_value()


def test_one_without_end_makes_all_endless() -> None:
    dataset = tf.data.Dataset.range(2).batch(2)
    prolonged = prolong(dataset, Plan("plan", (1, INFINITE), same_sizes=False))
    assert int(prolonged.cardinality()) == INFINITE
    assert elements(prolonged.take(3)) == [[0, 1], [], []]
    endless = dataset.repeat()
    assert prolong(endless, Plan("plan", (INFINITE, 1), same_sizes=False)) is endless


@pytest.mark.parametrize(
    ("batches", "same_sizes", "lacking", "length"),
    [
        ((3, 3), True, False, 3),
        ((3, 3), False, False, 3),
        ((3, 4), True, True, 4),
        ((3, UNKNOWN), False, True, UNKNOWN),
        ((UNKNOWN, UNKNOWN), True, True, UNKNOWN),
        ((INFINITE, UNKNOWN), True, True, UNKNOWN),
        ((INFINITE, INFINITE), True, False, INFINITE),
    ],
)
def test_what_a_plan_says(
    batches: tuple[int, ...], same_sizes: bool, lacking: bool, length: int
) -> None:
    plan = Plan("plan", batches, same_sizes)
    assert (plan.lacking, plan.length) == (lacking, length)
    assert plan.is_even == (same_sizes and not lacking)


def test_a_process_that_is_alone_has_what_it_has() -> None:
    dataset = tf.data.Dataset.range(5).batch(3).filter(lambda x: True)
    for _ in range(2):
        pairs = [(int(n), x.tolist()) for n, x in kf.data.even(dataset).as_numpy_iterator()]
        assert pairs == [(3, [0, 1, 2]), (2, [3, 4])]
    with sample_weights.samples(tf.constant(3)):
        assert sample_weights.current() is None


def test_only_datasets_can_be_prolonged() -> None:
    with pytest.raises(TypeError, match=r"not a tf\.data\.Dataset: builtins\.list"):
        kf.data.even([1, 2])


@pytest.fixture
def one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("one_core")
def test_on_one_core_a_function_that_waits_leaves_another_thread() -> None:
    dataset = kf.data.even(tf.data.Dataset.range(1).batch(1))
    assert dataset.options().threading.private_threadpool_size == 2


@pytest.mark.usefixtures("one_core")
def test_the_programs_own_number_of_threads_is_kept() -> None:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    dataset = kf.data.even(tf.data.Dataset.range(1).batch(1).with_options(options))
    assert dataset.options().threading.private_threadpool_size == 1
