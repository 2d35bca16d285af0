"""Pairs of peers, of which the first pair ends before the second pair has begun its work."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from endings import wait_until_gone

import kungfu_tf as kf

PAIRS = [0, 0, 2, 2]


def main() -> None:
    kf.ops.save_variable(tf.constant(1), name="here")
    window = kf.ops.new_window(1.0, topology=kf.topology.ring(), name="ring")
    kf.barrier()
    x = np.full([1000], kf.rank(), "float64")
    for _ in range(2):
        mean = kf.ops.subset_all_reduce(x, PAIRS, op="mean", name="pairs")
        np.testing.assert_array_equal(mean, np.full([1000], kf.rank() // 2 * 2 + 0.5))
    if kf.rank() < 2:
        print("ended first", flush=True)
        return
    wait_until_gone(0)
    wait_until_gone(1)
    for _ in range(3):
        mean = kf.ops.subset_all_reduce(x, PAIRS, op="mean", name="pairs")
        np.testing.assert_array_equal(mean, np.full([1000], 2.5))
        mean = kf.ops.pair_gossip(x, 5 - kf.rank())
        np.testing.assert_array_equal(mean, np.full([1000], 2.5))
    for all_reduce in (kf.ops.all_reduce, tf.function(kf.ops.all_reduce), in_a_session):
        try:
            all_reduce(x)
        except tf.errors.UnavailableError as error:
            assert "the peer has left" in str(error), error
            print("went on alone", flush=True)
    try:  # rank 2 takes from rank 1, rank 3 from rank 0
        window.update()
    except tf.errors.UnavailableError as error:
        gone = 3 - kf.rank()
        assert f"collect from outbox 'window/ring/{gone}-{kf.rank()}': from rank {gone}" in str(
            error
        )
        print("went without a source", flush=True)


def in_a_session(x: np.ndarray) -> None:
    with tf.Graph().as_default():
        total = kf.ops.all_reduce(x)
        with tf.compat.v1.Session() as session:
            session.run(total)


if __name__ == "__main__":
    main()
