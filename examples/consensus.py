"""Consensus: each peer has a vector, and all come to the mean by exchanges with neighbours.

    kungfu-run -np 5 python examples/consensus.py
    kungfu-run -np 8 python examples/consensus.py --topologies ring base_graph

It prints how many steps each topology needs. Those of a base graph end with the exact mean, for any
number of peers. Most others come nearer to it in each step.
"""

from __future__ import annotations

import argparse

import tensorflow as tf

import kungfu_tf as kf

TOPOLOGIES = {
    "ring": kf.topology.ring(),
    "star": kf.topology.star(),
    "exponential": kf.topology.exponential(),
    "one_peer_exponential": kf.topology.one_peer_exponential(),
    "base_graph": kf.topology.base_graph(),
}


def steps_to_mean(topology: kf.topology.Topology, x: tf.Tensor, tolerance: float) -> int:
    """The number of steps until each peer is as near to the mean as this."""
    mean = kf.ops.all_reduce(x, op="mean")

    @tf.function
    def mix(x: tf.Tensor, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mixed = kf.ops.neighbor_all_reduce(x, topology=topology, step=step)
        mine = tf.reduce_max(tf.abs(mixed - mean))
        return mixed, kf.ops.all_reduce(mine, op="max")  # to know when all are there

    steps, error = 0, float("inf")
    while error > tolerance:
        x, error = mix(x, tf.constant(steps, tf.int64))
        steps += 1
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topologies", nargs="+", choices=TOPOLOGIES, default=list(TOPOLOGIES))
    parser.add_argument("--tolerance", type=float, default=1e-10)
    parser.add_argument("--elements", type=int, default=1000)
    options = parser.parse_args()

    x = tf.random.stateless_normal([options.elements], seed=[0, kf.rank()], dtype=tf.float64)
    for name in options.topologies:
        topology = TOPOLOGIES[name]
        steps = steps_to_mean(topology, x, options.tolerance)
        if kf.is_root():
            exact = topology.exact_steps(kf.size())
            end = f"exact after {exact}" if exact else "never exact"
            print(f"{name}: {steps} steps to {options.tolerance:g}, {end}")


if __name__ == "__main__":
    main()
