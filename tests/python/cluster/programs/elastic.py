"""Trains through 1, 3, 2, 3 and 2 peers by one traced function; prints "ok" on each.

At last rank 0 leaves, as the document of a config server wants it, for which the graph asks.
The changes come in the middle of an epoch, while each peer reads ahead. All keep count of how often
each sample was trained on.
"""

from __future__ import annotations

import ctypes
import os
import threading

import numpy as np
import tensorflow as tf
from elastic_server import Server, wait_for_change

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.ops.resize import resize_from_config_server

PLAN = {3: 3, 6: 2, 9: 3}  # peers, after so many steps
LAST = 12  # then rank 0 leaves
SAMPLES, BATCH, EPOCHS, RATE = 103, 4, 2, 0.5
weights = tf.Variable(tf.zeros([4], tf.float64))
counts = tf.Variable(tf.zeros([SAMPLES], tf.int64))
features = tf.constant(np.random.default_rng(1).normal(size=(SAMPLES, 4)))
traces = 0


@tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)])
def train(samples: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many peers there are, and how often the step had each sample."""
    global traces
    traces += 1
    with kf.DistributedGradientTape(tf.GradientTape(), samples=samples) as tape:
        loss = tf.reduce_mean(tf.linalg.matvec(tf.gather(features, numbers), weights))
    (gradient,) = tape.gradient(loss, [weights])
    weights.assign_sub(RATE * gradient)
    mine = tf.math.bincount(tf.cast(numbers, tf.int32), minlength=SAMPLES, dtype=tf.int64)
    step = kf.ops.all_reduce(tf.where(samples > 0, mine, tf.zeros_like(mine)))
    counts.assign_add(step)
    return kf.ops.cluster_size(), step


@tf.function
def follow_schedule(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return kf.ops.resize(kf.ops.step_based_schedule("1:3,3:3,2:3,3:1", step))


@tf.function
def follow_server() -> tuple[tf.Tensor, tf.Tensor]:
    return resize_from_config_server()


def refuses_while_something_is_pending() -> None:
    ended = threading.Event()
    done = libraries.Done(lambda arg, code, message: ended.set())
    if kf.rank() == 1:
        libraries.core().kungfu_barrier(
            ctypes.byref(libraries.Options(name=b"pending")), done, None
        )
    try:
        kf.ops.resize(0)
    except tf.errors.FailedPreconditionError as error:
        assert "operations of some peer are pending" in str(error)
    else:
        raise AssertionError("there was an operation pending")
    if kf.rank() == 1:
        assert ended.wait(60)
    else:
        kf.barrier(name="pending")


def refuses_more_than_the_slots() -> None:
    """An error on the peer that asks; for the others nothing changes, and all train on."""
    before = kf.membership_version()
    for resize in (kf.ops.resize, tf.function(kf.ops.resize)):
        try:
            changed, detached = resize(5)
        except tf.errors.FailedPreconditionError as error:
            assert kf.rank() == 0 and "5 peers: there are 4 slots" in str(error), error
        else:
            assert kf.rank() > 0 and not changed and not detached
    assert kf.membership_version() == before


def reduces_directly() -> None:
    """Large tensors are reduced where they lie, in each epoch and by newcomers, too."""
    before = libraries.statistics()["direct"]
    total = kf.ops.all_reduce(tf.fill([1 << 18], float(kf.rank() + 1)), name="large")
    np.testing.assert_array_equal(total, np.full(1 << 18, kf.size() * (kf.size() + 1) / 2))
    assert libraries.statistics()["direct"] == before + (1 if kf.size() > 1 else 0)


def propose(size: int) -> None:
    """And wait until the others are there, or know that they leave."""
    if not kf.is_root():
        return
    kf.propose_new_size(size)
    wait_for_change()


def loses_rank_0(server: Server) -> None:
    if kf.is_root():
        server.change(lambda workers: workers[1:])
    changed = False
    while not changed:  # the launcher hears of it at once, and peers soon
        changed, detached = follow_server()
    assert bool(detached) == kf.detached()


def main() -> None:
    server = Server()
    if os.environ["KUNGFU_MEMBERSHIP"] != "joining":
        server.start()
    position, state = kf.data.Position(), kf.elastic.ElasticState(None)
    numbers = tf.data.Dataset.range(SAMPLES)
    dataset = kf.data.shard(numbers, position=position, shuffle=20, seed=7)
    dataset = dataset.map(lambda x: x, num_parallel_calls=2).batch(BATCH).prefetch(8)
    batches, traced = iter(()), 0
    while not state.stopped():
        with kf.elastic.ElasticContext(state) as should_sync:
            if should_sync:
                kf.initializer.broadcast_variables([weights, counts])
                position.synchronize()
                reduces_directly()
            if should_sync or position.sample == 0:
                batches = iter(kf.data.even(dataset))
            before = weights.numpy()
            size, step = train(*next(batches))
            traced = traced or traces
            assert int(size) == kf.size()
            # The mean over the samples of all peers.
            expected = before - RATE * np.average(features, axis=0, weights=step)
            np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-12)
            position.commit(int(tf.reduce_sum(step)))
            if position.epoch == EPOCHS:
                state.max_progress = state.progress
            elif state.progress + 1 == LAST:
                loses_rank_0(server)
            elif state.progress + 1 in PLAN:
                refuses_more_than_the_slots()
                propose(PLAN[state.progress + 1])
                if kf.size() == 3:
                    refuses_while_something_is_pending()
                    changed, detached = follow_schedule(tf.constant(state.progress + 1))
                    assert changed and bool(detached) == kf.detached()
    if state.stop_reason() == "detached":
        assert (kf.rank(), kf.size()) == (-1, 0)
    else:
        assert kf.ops.consensus(weights)
        np.testing.assert_array_equal(counts, np.full(SAMPLES, EPOCHS))
    assert traces == traced
    server.end()
    print("ok", state.stop_reason(), kf.size(), flush=True)


if __name__ == "__main__":
    main()
