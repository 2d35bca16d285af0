"""Windows, against what their definition says in NumPy: barriers make known who has left what."""

from __future__ import annotations

from functools import partial

import numpy as np
import tensorflow as tf
from harness import each
from support import numpy_dtype, raised_by

import kungfu_tf as kf
from kungfu_tf import errors, topology

JOBS = [{"np": 3}]
NEEDS_KERAS = False

# Rank 0 sends to both others, rank 1 to rank 2, that to rank 0. Columns add up to 1, rows do not.
DIRECTED = topology.from_matrix([[0.5, 0, 0.5], [0.25, 0.5, 0], [0.25, 0.5, 0.5]])


def values(dtype="float64", shape=(3, 5)):
    """What each peer has, as all peers know it: [rank, ...]."""
    random = np.random.default_rng(5)
    return random.normal(size=(kf.size(), *shape)).astype(numpy_dtype(dtype))


def others():
    return [rank for rank in range(kf.size()) if rank != kf.rank()]


def case_what_is_put_last_counts_until_the_next():
    x, ring = values(), topology.ring()
    window = kf.ops.new_window(tf.constant(x[kf.rank()]), topology=ring, name="put")
    assert isinstance(window, kf.ops.Window)
    assert window.sources == window.targets == others()
    np.testing.assert_array_equal(window.update(), mixed(ring, x[kf.rank()], x[[kf.rank()] * 3]))
    kf.barrier()
    window.put(tf.zeros([3, 5], tf.float64))
    window.put(x[kf.rank()])
    kf.barrier()
    mine = x[kf.rank()]
    for _ in range(3):  # nobody puts anything new
        mine = mixed(ring, mine, x)
        np.testing.assert_array_equal(window.update(), mine)
        np.testing.assert_array_equal(window.value, mine)
    assert window.weight == 1
    window.free()


def mixed(graph, mine, everybody):
    """W[i, i] of its own and W[i, j] of the others, by rank."""
    row = graph.at(0, 3)[kf.rank()]
    total = row[kf.rank()] * mine
    for rank in others():
        if row[rank]:
            total = total + row[rank] * everybody[rank]
    return total


def case_push_sum_finds_the_mean_of_a_directed_graph():
    x = values()
    mine = tf.constant(x[kf.rank()])
    window = kf.ops.new_window(mine, topology=DIRECTED, name="push", zeros=True)
    sums, weights = x.reshape(3, -1), np.ones(3)
    for step in range(60):
        window.accumulate(mine)
        kf.barrier()
        mine = window.update(self_weight=1, weights=1, reset=True)
        kf.barrier()
        sums, weights = DIRECTED.at(step, 3) @ sums, DIRECTED.at(step, 3) @ weights
        np.testing.assert_allclose(np.ravel(mine), sums[kf.rank()], rtol=0, atol=1e-13)
        np.testing.assert_allclose(window.weight, weights[kf.rank()], rtol=0, atol=1e-13)
    assert abs(window.weight - 1) > 0.1  # plain sums would favour some peers
    np.testing.assert_allclose(mine / window.weight, x.mean(axis=0), rtol=0, atol=1e-12)
    window.free()


def case_nothing_is_lost_if_nobody_waits():
    """Each peer makes its steps at its own pace; what is under way comes in the end."""
    x = np.float64(kf.rank() + 1)
    window = kf.ops.new_window(x, topology=DIRECTED, name="apart", zeros=True)

    @tf.function
    def step(mine):
        window.accumulate(mine)
        return window.update(self_weight=1, weights=1, reset=True)

    mine = tf.constant(x)
    for _ in range(50 * (kf.rank() + 1)):
        mine = step(mine)
    kf.barrier()
    mine = window.update(self_weight=1, weights=1, reset=True)
    np.testing.assert_allclose(kf.ops.all_reduce(mine), 6, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kf.ops.all_reduce(window.weight), 3, rtol=0, atol=1e-12)
    window.free()


def case_given_weights():
    x = values()
    window = kf.ops.new_window(x[kf.rank()], topology=topology.ring(), name="given")
    before, behind = (kf.rank() - 1) % 3, (kf.rank() + 1) % 3
    window.put(x[kf.rank()], weights={behind: 4.0})
    kf.barrier()
    got = window.update(self_weight=0.25, weights={before: tf.constant(0.5, tf.float64)})
    mine = 0.25 * x[kf.rank()] + 0.5 * (4.0 * x[before])
    np.testing.assert_array_equal(got, mine)
    kf.barrier()
    window.accumulate(x[kf.rank()], self_weight=0.5, weights={before: 0.1})
    kf.barrier()
    low, high = sorted([before, behind])
    left = {before: 4.0 * x[before], behind: x[kf.rank()] + 0.1 * x[behind]}
    expected = 0.5 * x[kf.rank()] + 2.0 * left[low] + 2.0 * left[high]
    np.testing.assert_array_equal(window.update(self_weight=1, weights=2.0), expected)
    mine = {kf.rank(): 1.0}
    for what in (window.put, window.accumulate):
        text = raised_by(errors.InvalidArgumentError, partial(what, x[0], weights=mine))
        expected = f"rank {kf.rank()} is none of the targets of rank {kf.rank()} in window 'given'"
        assert expected in text, text
    raised_by(errors.InvalidArgumentError, lambda: window.update(weights={7: 1.0}))
    raised_by(errors.InvalidArgumentError, lambda: window.get(weights={7: 1.0}))
    window.free()


@each(mode=["eager", "function"])
def case_a_source_of_weight_0_adds_nothing(mode):
    """Not even NaN, whatever it has left."""
    window = kf.ops.new_window(2.0, topology=topology.ring(), name=f"infinite/{mode}")
    window.put(2.0 if kf.rank() else np.inf)
    kf.barrier()
    weights = {rank: 0.25 for rank in others() if rank}
    update = lambda: window.update(self_weight=0.5, weights=weights)  # noqa: E731
    got = (tf.function(update) if mode == "function" else update)()
    assert kf.rank() == 0 or got == 1.5
    window.free()


@each(mode=["eager", "function"])
def case_partners_change_from_step_to_step(mode):
    """In lockstep, the neighbours of each step alone: as `neighbor_all_reduce`, of two tensors."""
    graph = topology.base_graph()
    x = values()
    mine = {"a": tf.constant(x[kf.rank()]), "b": [tf.constant(x[kf.rank(), 0])]}
    window = kf.ops.new_window(mine, topology=graph, name=f"steps/{mode}")
    traces = []

    def put(value, number):
        traces.append(number)
        window.put(value, step=number)

    def update(number):
        return window.update(step=number)

    if mode == "function":
        put, update = tf.function(put), tf.function(update)
    number = tf.Variable(0)
    for step in range(graph.exact_steps(3)):
        put(mine, number)
        kf.barrier()
        mine = update(number)
        kf.barrier()
        x = np.einsum("ij,j...->i...", graph.at(step, 3), x)
        number.assign_add(1)
    np.testing.assert_allclose(mine["a"], values().mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_allclose(mine["b"][0], values().mean(axis=0)[0], rtol=0, atol=1e-15)
    assert mode == "eager" or len(traces) == 1
    window.free()


def case_versions_count_what_came():
    window = kf.ops.new_window(0.0, topology=DIRECTED, name="versions")
    assert [*window.versions()] == [0] * len(window.sources)
    kf.barrier()
    for _ in range(1 + kf.rank()):
        window.put(1.0)
    window.accumulate(1.0)
    kf.barrier()
    assert [*window.versions()] == [2 + rank for rank in window.sources]
    assert [*window.versions()] == [2 + rank for rank in window.sources]
    window.update()
    assert [*window.versions()] == [0] * len(window.sources)
    window.get()
    assert [*window.versions()] == [1] * len(window.sources)
    window.free()


def case_what_is_published_is_got():
    x = values()
    window = kf.ops.new_window(x[kf.rank()], topology=topology.ring(), name="get")
    window.get(weights=2.0)  # of what they were made with
    expected = 0.5 * x[kf.rank()]
    for rank in others():
        expected = expected + 0.25 * (2.0 * x[rank])
    np.testing.assert_array_equal(window.update(self_weight=0.5, weights=0.25), expected)
    kf.barrier()
    window.publish(-x[kf.rank()])
    kf.barrier()
    window.get()
    np.testing.assert_array_equal(window.update(), mixed(topology.ring(), -x[kf.rank()], -x))
    window.free()


@each(dtype=["float16", "bfloat16", "float32", "complex64"])
def case_dtypes(dtype):
    """Small whole numbers, exact in each of them."""
    x = np.arange(12).reshape(3, 4).astype(numpy_dtype(dtype))
    window = kf.ops.new_window(x[kf.rank()], topology=topology.ring(), name=dtype, zeros=True)
    window.accumulate(x[kf.rank()], self_weight=1, weights=1)
    window.accumulate(x[kf.rank()], self_weight=1, weights=0.5)
    kf.barrier()
    got = window.update(self_weight=2, weights=2)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, (2 * x[kf.rank()] + sum(3 * x[r] for r in others())))
    window.free()


def case_peers_that_differ():
    one = topology.ring() if kf.rank() else topology.star()
    text = raised_by(
        tf.errors.InvalidArgumentError,
        lambda: kf.ops.new_window(1.0, topology=one, name="topologies"),
    )
    assert "the topology or its step" in text and f"here: float [], {one}" in text, text
    raised_by(
        tf.errors.InvalidArgumentError,
        lambda: kf.ops.new_window(tf.zeros([kf.rank()]), topology=topology.ring(), name="shapes"),
    )


def case_wrong_use():
    ring = topology.ring()

    def new(template):
        return kf.ops.new_window(template, topology=ring, name="wrong")

    raised_by(errors.UnsupportedTypeError, lambda: new(1))
    text = raised_by(errors.InvalidArgumentError, lambda: new([1.0, tf.constant(1.0, tf.float64)]))
    assert "one dtype, not float32 (), float64 ()" in text, text
    raised_by(errors.UnimplementedError, tf.function(lambda: new(1.0)))
    window = new(tf.zeros([2]))
    for wrong in (tf.zeros([3]), tf.zeros([2], tf.float64)):
        text = raised_by(errors.InvalidArgumentError, lambda wrong=wrong: window.put(wrong))
        assert "and the window is of float32 (2,)" in text, text
    window.free()
    for use in (lambda: window.put(tf.zeros([2])), window.update, window.get, window.free):
        assert "window 'wrong' is freed" in raised_by(errors.FailedPreconditionError, use)


def case_a_window_ends_with_its_epoch():
    window = kf.ops.new_window(1.0, topology=topology.ring(), name="epoch")
    kf.ops.set_strategy("RING")
    try:
        for use in (lambda: window.put(2.0), window.update):
            text = raised_by(tf.errors.CancelledError, use)
            assert "has ended" in text and "'window/epoch/" in text, text
        window.restart(3.0)
        assert window.update(self_weight=1, weights=0) == 3
        window.put(4.0)
        kf.barrier()
        assert window.update(self_weight=0, weights=0.5) == 4
        window.free()
    finally:
        kf.ops.set_strategy("AUTO")
