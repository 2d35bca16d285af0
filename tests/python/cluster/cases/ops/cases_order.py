"""Peers may start operations in any order, and may differ in what else they build."""

from __future__ import annotations

import threading
from concurrent import futures

import numpy as np
import tensorflow as tf
from harness import each
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.native import libraries

# With one thread for all operations, one that waited in it would stop everything.
JOBS = [{"np": 3, "env": {"TF_NUM_INTEROP_THREADS": "1"}}]
NEEDS_KERAS = False

MANY = 200


def case_many_at_once_in_different_orders():
    """Rank-dependent order, forced: tensor i is made when tensor i - 1 of this peer has been."""
    order = np.random.default_rng(kf.rank()).permutation(MANY)
    started = []

    def make(i):
        started.append(int(i))
        return np.full(10 + i, kf.rank() + i, np.int64)

    @tf.function
    def run():
        # TensorFlow runs numpy_functions in the order of the program.
        results = {}
        for i in order:
            x = tf.numpy_function(make, [tf.constant(i)], tf.int64)
            results[int(i)] = kf.ops.all_reduce(x, name=f"many/{i}")
        return [results[i] for i in range(MANY)]

    results = run()
    assert started == order.tolist()
    orders = kf.ops.all_gather(started).numpy()
    assert len({tuple(one) for one in orders}) == kf.size()
    for i, result in enumerate(results):
        expected = sum(range(kf.size())) + i * kf.size()
        np.testing.assert_array_equal(result, np.full(10 + i, expected))
        assert libraries.completed(f"many/{i}") == 1


def case_operations_of_a_function_do_not_wait_for_each_other():
    """Rank 0 has A before B, the others B before A: in the order of the program neither ends."""
    one = tf.ones([5])

    @tf.function
    def run():
        if kf.rank() == 0:
            a = kf.ops.all_reduce(one, name="a")
            b = kf.ops.all_reduce(one, name="b")
        else:
            b = kf.ops.all_reduce(one, name="b")
            a = kf.ops.all_reduce(one, name="a")
        return a, b

    for result in run():
        np.testing.assert_array_equal(result, np.full(5, kf.size()))


def case_concurrent_here_and_in_order_there():
    """Rank 0 runs X and Y at once, the others Y when X is done; then the other way round."""
    large = tf.ones([1 << 22])

    def run(first, second):
        @tf.function
        def both():
            x = kf.ops.all_reduce(large, name=first)
            if kf.rank() == 0:
                y = kf.ops.all_reduce(large * 2, name=second)
            else:
                with tf.control_dependencies([x]):
                    y = kf.ops.all_reduce(large * 2, name=second)
            return x[-1], y[-1]

        return both()

    for names in (("x", "y"), ("y", "x")):
        x, y = run(*names)
        assert (x, y) == (kf.size(), 2 * kf.size())
    assert libraries.completed("x") == libraries.completed("y") == 2


def case_a_function_that_waits_leaves_its_thread_to_another_one():
    """Rank 0 calls f, and g from another thread; the others call g, and f when g has returned."""
    begun = threading.Event()

    def begin():
        begun.set()
        return np.int64(1)

    def function_of(name):
        @tf.function
        def function():
            one = tf.ensure_shape(tf.numpy_function(begin, [], tf.int64), [])
            return kf.ops.all_reduce(one, name=name)

        return function

    f, g = function_of("of f"), function_of("of g")
    if kf.rank() == 0:
        with futures.ThreadPoolExecutor(1) as other:
            waits = other.submit(f)
            assert begun.wait(60)
            results = [g(), waits.result(60)]
    else:
        results = [g(), f()]
    assert results == [kf.size()] * 2
    assert libraries.completed("of f") == libraries.completed("of g") == 1


def case_retraced_once_more_on_one_peer():
    @tf.function
    def retraced(x, factor):
        return kf.ops.all_reduce(x * factor)

    if kf.rank() == 0:
        retraced.get_concrete_function(tf.ones([2, 2]), 3)
        retraced.get_concrete_function(tf.ones([3]), 5)
    for factor in (1, 2):
        result = retraced(tf.ones([4]), factor)
        np.testing.assert_array_equal(result, np.full(4, factor * kf.size()))
    assert libraries.completed("all_reduce/retraced/0") == 2


def case_one_peer_builds_more_than_the_others():
    def function_of(model):
        @tf.function
        def of_a_model(x):
            y = tf.cond(
                tf.reduce_sum(x) > 0,
                lambda: kf.ops.all_reduce(model * x),
                lambda: kf.ops.all_reduce(-model * x),
            )
            for _ in tf.range(2):
                y = kf.ops.all_reduce(y)
            return kf.ops.all_reduce(y) + kf.ops.all_reduce(2 * y)

        return of_a_model

    if kf.rank() == kf.size() - 1:
        for _ in range(2):
            function_of(tf.Variable(1.0).read_value()).get_concrete_function(tf.ones([]))
        with tf.Graph().as_default():
            kf.ops.all_reduce(tf.ones([]))
    result = function_of(tf.constant(1.0))(tf.ones([]))
    np.testing.assert_array_equal(result, 3 * kf.size() ** 4)
    assert libraries.completed("all_reduce/of_a_model/0") == 1
    assert libraries.completed("all_reduce/of_a_model/1") == 1


def case_tf1_graphs_have_counts_of_their_own():
    for _ in range(2):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = kf.ops.all_reduce(tf.constant(1))
            y = kf.ops.all_reduce(tf.constant(2))
            assert session.run([x, y]) == [kf.size(), 2 * kf.size()]


def case_a_name_used_twice_in_a_function():
    @tf.function
    def twice(x):
        return kf.ops.all_reduce(x, name="twice"), kf.ops.all_reduce(2 * x, name="twice")

    for _ in range(10):
        first, second = twice(tf.constant(1))
        assert (first, second) == (kf.size(), 2 * kf.size())
    assert libraries.completed("twice") == libraries.completed("twice/1") == 10


@each(parallel=[1, 10])
def case_loop_of_a_function(parallel):
    @tf.function
    def run():
        def body(i, log):
            x = kf.ops.all_reduce(tf.cast(i + kf.rank(), tf.int64), name=f"loop/{parallel}")
            return i + 1, log.write(i, x)

        log = tf.TensorArray(tf.int64, size=20)
        _, log = tf.while_loop(
            lambda i, _: i < 20, body, [tf.constant(0), log], parallel_iterations=parallel
        )
        return log.stack()

    n = kf.size()
    np.testing.assert_array_equal(run(), np.arange(20) * n + sum(range(n)))
    assert libraries.completed(f"loop/{parallel}") == 20


def tf1_loop(parallel, times=10, name="loop of TF1"):
    def body(i, total):
        return i + 1, total + kf.ops.all_reduce(i, name=name)

    return tf.compat.v1.while_loop(
        lambda i, _: i < times,
        body,
        [tf.constant(0), tf.constant(0)],
        parallel_iterations=parallel,
    )


def case_loop_of_a_tf1_graph():
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            assert session.run(tf1_loop(1)[1]) == 45 * kf.size()
        with tf.Graph().as_default():
            text = raised_by(kf.errors.InvalidArgumentError, tf1_loop, 10)
            assert "parallel_iterations=1" in text
            assert "loop of TF1" in text
    finally:
        tf.compat.v1.enable_control_flow_v2()
    assert libraries.completed("loop of TF1") == 10


def case_long_loop_in_the_thread_of_the_caller():
    """There TensorFlow runs what follows an operation within the call that tells of its end."""
    times = 5000
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            options = tf.compat.v1.RunOptions(inter_op_thread_pool=-1)
            total = session.run(tf1_loop(1, times, "long loop")[1], options=options)
    finally:
        tf.compat.v1.enable_control_flow_v2()
    assert total == sum(range(times)) * kf.size()


def case_loop_of_a_tf1_graph_with_tf2_control_flow():
    with tf.Graph().as_default():
        assert "tf.function" in raised_by(kf.errors.InvalidArgumentError, tf1_loop, 1)


def case_several_steps_in_one_call():
    """What Keras does with steps_per_execution: a function in a loop."""

    @tf.function
    def one_step(x):
        return kf.ops.group_all_reduce([x, 2 * x], name="of a step")

    @tf.function
    def steps():
        total = tf.constant(0)
        for i in tf.range(5):
            first, second = one_step(i)
            total += first + second
        return total

    assert steps() == 3 * 10 * kf.size()
    assert libraries.completed("of a step") == 5


def case_barrier_keeps_its_place():
    seen = tf.Variable(0)

    @tf.function
    def run():
        seen.assign_add(1)
        kf.ops.barrier()
        return seen.read_value()

    before = operations_done()
    assert run() == 1
    kf.barrier()
    kf.ops.barrier()
    assert operations_done() - before == 3


def case_topology_is_read_when_the_graph_runs():
    @tf.function
    def run():
        return kf.ops.rank(), kf.ops.cluster_size(), *kf.ops.peer_info()

    assert [int(x) for x in run()] == [kf.rank(), kf.size()] * 2
    graph = run.get_concrete_function().graph
    assert {op.type for op in graph.get_operations()} >= {"KungfuRank", "KungfuClusterSize"}


def case_shapes_never_hold_the_size():
    @tf.function
    def run(x):
        gathered = kf.ops.all_gather(x)
        assert gathered.shape.as_list() == [None, 4, 3]
        assert kf.ops.all_gather(x, concat=True).shape.as_list() == [None, 3]
        assert kf.ops.gather(x).shape.as_list() == [None, 4, 3]
        assert kf.ops.reduce_scatter(x).shape.as_list() == [None, 3]
        assert kf.ops.all_to_all(x).shape.as_list() == [None, 3]
        assert kf.ops.all_reduce(x).shape.as_list() == [4, 3]
        return gathered

    assert run(tf.ones([4, 3])).shape == [kf.size(), 4, 3]
