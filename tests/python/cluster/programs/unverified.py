"""Trains without what `kungfu-run -verify` could verify: a plain loop, and a session.

A program for `kungfu-run -verify`: at its end it is told so.
"""

from __future__ import annotations

import sys

import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.optimizers import PairAveragingOptimizer

v1 = tf.compat.v1


def loop(*, is_wrong: bool) -> None:
    weight = tf.Variable(1.0, name="weight")
    for _ in range(2):
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = weight**2
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
    if is_wrong:
        weight.assign_add(float(kf.rank()))


def session() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("weight", [])
        optimizer = PairAveragingOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(weight**2)
        session.run(v1.global_variables_initializer())
        session.run(train)


if __name__ == "__main__":
    loop(is_wrong=sys.argv[1:] == ["wrong"])
    session()
