"""Means of hosts, mixed with those of other hosts: two peers on the first host, one on the second.

BlueFog's words for it do the same.
"""

from __future__ import annotations

import networkx
import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import compat, errors, topology

compat.install("bluefog")
import bluefog.tensorflow as bf  # noqa: E402

HOSTS = [0, 0, 1]
CYCLE = topology.from_matrix([[[0.75, 0.25], [0.5, 0.5]], [[0.25, 0.75], [0.0, 1.0]]])


def main() -> None:
    x = np.random.default_rng(3).normal(size=(3, 4))
    here, mine = HOSTS[kf.rank()], x[kf.rank()]
    means = [(x[0] + x[1]) / 2, x[2]]

    def expect(y: tf.Tensor, own: float, other: float) -> None:
        mixed = own * means[here] + other * means[1 - here]
        np.testing.assert_array_equal(y, mixed)

    mix = kf.ops.hierarchical_neighbor_all_reduce
    traced = tf.function(lambda value, step: mix(value, topology=CYCLE, step=step))
    for step in range(3):
        row = CYCLE.at(step, 2)[here]
        expect(mix(mine, topology=CYCLE, step=step), row[here], row[1 - here])
        expect(traced(mine, tf.constant(step)), row[here], row[1 - here])
    expect(mix(mine), 0.5, 0.5)  # the base graph of two hosts
    expect(mix(mine, self_weight=0.1, src_weights={1 - here: 2.0}), 0.1, 2.0)
    sends = {1 - here: 4.0}
    y = mix(mine, self_weight=0.1, src_weights={1 - here: 2.0}, dst_weights=sends)
    expect(y, 0.1, 8.0)
    endless = np.array([np.inf, 1.0])
    np.testing.assert_array_equal(mix(endless), endless)  # no NaN on any peer of a host
    gradients(mine)
    refused(mine)
    in_the_words_of_bluefog(mine, expect)
    print("mixed hosts", flush=True)


def gradients(mine: np.ndarray) -> None:
    """Of Σ cⱼ·yⱼ over all peers j: what reaches a host through W, in equal parts for its peers."""
    value = tf.constant(mine)
    with tf.GradientTape() as tape:
        tape.watch(value)
        y = kf.ops.hierarchical_neighbor_all_reduce(value, topology=CYCLE)
        loss = tf.reduce_sum(y) * (kf.rank() + 1)
    here = HOSTS[kf.rank()]
    of_hosts = CYCLE.at(0, 2).T @ [1.0 + 2.0, 3.0]
    expected = of_hosts[here] / HOSTS.count(here)
    np.testing.assert_allclose(tape.gradient(loss, value), np.full(4, expected), rtol=1e-15)


def refused(mine: np.ndarray) -> None:
    for wrong in (
        {"topology": CYCLE, "self_weight": 1.0},
        {"src_weights": {0: 1.0}},
        {"self_weight": 1.0, "src_weights": {2: 1.0}},
    ):
        try:
            kf.ops.hierarchical_neighbor_all_reduce(mine, **wrong)
        except errors.InvalidArgumentError:
            continue
        raise AssertionError(wrong)


def in_the_words_of_bluefog(mine: np.ndarray, expect) -> None:
    bf.init()
    assert (bf.machine_size(), bf.machine_rank()) == (2, HOSTS[bf.rank()])
    graph = networkx.from_numpy_array(np.full((2, 2), 0.5), create_using=networkx.DiGraph)
    assert bf.set_machine_topology(graph)
    assert (
        bf.in_neighbor_machine_ranks() == bf.out_neighbor_machine_ranks() == [1 - bf.machine_rank()]
    )
    expect(bf.hierarchical_neighbor_allreduce(mine), 0.5, 0.5)
    other = 1 - bf.machine_rank()
    y = bf.hierarchical_neighbor_allreduce(
        mine, self_weight=0.25, src_machine_weights={other: 0.75}, dst_machine_weights=[other]
    )
    expect(y, 0.25, 0.75)


if __name__ == "__main__":
    main()
