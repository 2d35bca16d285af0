"""What one peer saves and others ask for; and queues."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import each
from support import arrays, raised_by

import kungfu_tf as kf
from kungfu_tf import errors, ops
from kungfu_tf.native import libraries
from kungfu_tf.ops import store

JOBS = [{"np": 3}]
NEEDS_KERAS = False

FLOATING = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
OTHERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def neighbour(distance=1):
    return (kf.rank() + distance) % kf.size()


def in_graph(make):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(make())


@each(dtype=FLOATING + OTHERS)
def case_all_types(dtype):
    values = arrays(dtype)
    name = f"types/{dtype}"
    ops.save_variable(values[kf.rank()], name=name)
    for target in range(kf.size()):
        got = ops.request_variable(target, name=name, shape=[3, 5], dtype=values[0].dtype)
        assert got.dtype == values[0].dtype
        np.testing.assert_array_equal(got, values[target])


@each(mode=["eager", "function", "graph"])
def case_everywhere(mode):
    """Each mode counts: what is requested is an operation that another peer serves."""
    name = f"mode/{mode}"

    def save_and_request():
        version = ops.save_variable(tf.fill([2, 3], float(kf.rank())), version=7, name=name)
        with tf.control_dependencies([version]):
            return version, ops.request_variable(
                neighbour(), name=name, shape=[2, 3], dtype=tf.float32, version=7
            )

    run = {"eager": save_and_request, "function": tf.function(save_and_request)}
    version, got = run[mode]() if mode in run else in_graph(save_and_request)
    assert version == 7
    np.testing.assert_array_equal(got, np.full([2, 3], neighbour()))
    assert libraries.completed(name) == 1


def case_a_template_says_what_is_expected():
    variable = tf.Variable(tf.fill([4], float(kf.rank())), name="weights")
    other = tf.Variable([kf.rank()], name="other")
    assert [int(version) for version in ops.save_variables([variable, other])] == [0, 0]
    for target in range(kf.size()):
        got = ops.request_variable_with_template(target, variable)
        np.testing.assert_array_equal(got, np.full([4], target))
        assert ops.request_variable_with_template(target, other) == [target]


def case_the_newest_or_the_version_that_is_named():
    for version in range(5):
        assert ops.save_variable(tf.constant(10 * version), name="versions") == version
    kf.barrier()

    def request(version=None):
        return ops.request_variable(
            neighbour(), name="versions", shape=[], dtype=tf.int32, version=version
        )

    assert request() == 40
    assert [int(request(version)) for version in (2, 3, 4)] == [20, 30, 40]
    text = raised_by(tf.errors.OutOfRangeError, lambda: request(1))
    assert f"'versions' version 1: from rank {neighbour()} (127.0.0.1:" in text
    assert "versions 2 to 4 are kept" in text
    late = lambda: ops.save_variable(tf.constant(0), version=4, name="versions")  # noqa: E731
    assert "versions ascend" in raised_by(tf.errors.InvalidArgumentError, late)


def case_what_is_not_there_is_waited_for():
    """Rank 1 saves when it has got what rank 0 saves after it has begun to wait."""

    def request(target, **options):
        return ops.request_variable(target, name="late", shape=[], dtype=tf.int32, **options)

    if kf.rank() == 0:
        missing = lambda: request(1, wait=False)  # noqa: E731
        assert "nothing was saved" in raised_by(tf.errors.NotFoundError, missing)
        too_slow = lambda: request(1, timeout=0.2)  # noqa: E731
        assert "'late'" in raised_by(tf.errors.DeadlineExceededError, too_slow)
        ops.save_variable(tf.constant(1), name="late")
        assert request(1) == 2
    elif kf.rank() == 1:
        ops.save_variable(request(0) + 1, name="late")
    else:
        assert request(0) + request(1) == 3


def case_another_form_is_an_error_of_who_asks():
    ops.save_variable(tf.zeros([3, 4]), name="form")
    for shape, dtype in (([4, 3], "float32"), ([3], "float32"), ([3, 4], "float64")):
        text = raised_by(
            tf.errors.InvalidArgumentError,
            lambda shape=shape, dtype=dtype: ops.request_variable(
                neighbour(), name="form", shape=shape, dtype=dtype
            ),
        )
        assert "it is float32 [3,4] there" in text
        assert str(shape).replace(" ", "") in text


def case_what_cannot_be_asked_for():
    def request(target=0, shape=(2,), dtype=tf.float32):
        return ops.request_variable(target, name="x", shape=shape, dtype=dtype)

    for nobody in (-1, kf.size()):
        text = raised_by(tf.errors.InvalidArgumentError, request, nobody)
        assert f"rank {nobody} of {kf.size()} peers" in text
    assert "whole shape" in raised_by(errors.InvalidArgumentError, request, 0, [None, 2])
    assert "string" in raised_by(errors.UnsupportedTypeError, request, 0, [2], tf.string)
    nameless = lambda: ops.save_variable(tf.zeros([2]))  # noqa: E731
    assert "give name=" in raised_by(errors.InvalidArgumentError, nameless)


def case_a_request_that_was_begun_is_taken_later():
    """It brings what was there when it was begun; what was saved since is not waited for."""
    specs = [tf.TensorSpec([2], tf.float32)]
    mine = [tf.fill([2], -1.0)]
    assert [int(t[0]) for t in store.prefetched(mine, "ahead")[0]] == [-1]  # none was begun
    store.prefetch(neighbour(), specs, "absent", wait=False)
    kept, version = store.prefetched(mine, "absent")
    assert version == -1
    assert int(kept[0][0]) == -1

    first = store.save_group([tf.fill([2], 10.0 * kf.rank())], "ahead")
    kf.barrier()
    store.prefetch(neighbour(), specs, "ahead", wait=True)
    request = ops.request_variable(neighbour(), name="ahead", shape=[2], dtype=tf.float32)
    kf.barrier()  # the second request has come, so has the first
    store.save_group([tf.fill([2], 99.0)], "ahead")
    kf.barrier()
    theirs, version = store.prefetched(mine, "ahead")
    assert version == first
    np.testing.assert_array_equal(theirs[0], request)
    np.testing.assert_array_equal(theirs[0], [10.0 * neighbour()] * 2)


@each(others=[[[3]], [[2], [2]]])
def case_a_request_that_was_begun_for_other_tensors(others):
    name = f"other tensors/{len(others)}"
    mine = [tf.zeros([2])]
    ops.save_variable(mine[0], name=name)
    kf.barrier()
    store.prefetch(neighbour(), [tf.TensorSpec([2], tf.float32)], name, wait=True)
    take = lambda: store.prefetched([tf.zeros(shape) for shape in others], name)  # noqa: E731
    text = raised_by(tf.errors.InvalidArgumentError, take)
    assert f"{name}: other tensors were asked for" in text


@each(mode=["eager", "function"])
def case_queues(mode):
    """A ring of them."""
    queues = [ops.new_queue(rank, (rank + 1) % kf.size()) for rank in range(kf.size())]
    in_mode = tf.function if mode == "function" else lambda function: function

    def put_mine(value):
        queues[kf.rank()].put(value)

    put = in_mode(put_mine)
    get = in_mode(lambda: queues[kf.rank() - 1].get(tf.int32, [2]))
    for i in range(20):
        put(tf.constant([kf.rank(), i]))
        if i % 2:
            for j in (i - 1, i):
                np.testing.assert_array_equal(get(), [(kf.rank() - 1) % kf.size(), j])


def case_a_queue_has_two_ends():
    queue, hasty = (ops.new_queue(0, 1, name="ends", timeout=t, capacity=1) for t in (None, 0.3))
    wrong_rank = tf.errors.InvalidArgumentError
    if kf.rank() != 0:
        text = raised_by(wrong_rank, queue.put, tf.zeros([]))
        assert f"of rank 0, not of rank {kf.rank()}" in text
    if kf.rank() != 1:
        raised_by(wrong_rank, queue.get, tf.float32, [])
    kf.barrier()
    if kf.rank() == 0:
        queue.put(tf.zeros([]))
        assert "full" in raised_by(tf.errors.DeadlineExceededError, hasty.put, tf.ones([]))
    kf.barrier()
    if kf.rank() == 1:
        text = raised_by(tf.errors.InvalidArgumentError, queue.get, tf.float32, [3])
        assert "it is float32 [] there" in text
        assert queue.get(tf.float32, []) == 0.0
        raised_by(tf.errors.DeadlineExceededError, hasty.get, tf.float32, [])
    try:
        ops.new_queue(0, 1, capacity=0)
    except ValueError as error:
        assert "capacity" in str(error)


def case_numbers_that_mean_nothing():
    save = lambda **options: ops.save_variable(tf.constant(0), name="odd", **options)  # noqa: E731
    request = lambda **options: ops.request_variable(  # noqa: E731
        neighbour(), name="odd", shape=[], dtype=tf.int32, **options
    )
    for call in (save, request):
        for version in (-5, tf.constant(-1)):
            text = raised_by(kf.errors.InvalidArgumentError, lambda c=call, v=version: c(version=v))
            assert "'odd'" in text and "version must not be negative" in text
    for call in (request, lambda timeout: ops.new_queue(0, 1, timeout=timeout)):
        for timeout in (0, -1.0):
            raised_by(kf.errors.InvalidArgumentError, lambda c=call, t=timeout: c(timeout=t))
