"""The result takes the memory of what was sent: the address before is the address after."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

SIZES = [1 << 20, 7, 30000]


def address_of(x):
    # Not stateful, or those of a function would run one after the other.
    return tf.numpy_function(
        lambda array: np.int64(array.ctypes.data), [x], tf.int64, stateful=False
    )


def case_a_tensor():
    @tf.function
    def run():
        x = tf.random.uniform([1 << 20])
        before = address_of(x)
        with tf.control_dependencies([before]):
            y = kf.ops.all_reduce(x)
        return before, address_of(y)

    before, after = run()
    assert before == after


def case_a_group():
    @tf.function
    def run():
        values = [tf.random.uniform([size]) for size in SIZES]
        before = [address_of(x) for x in values]
        with tf.control_dependencies(before):
            results = kf.ops.group_all_reduce(values, name="in place")
        return before, [address_of(y) for y in results]

    before, after = run()
    assert before == after and len(set(map(int, before))) == len(SIZES)
    assert libraries.completed("in place") == 1


class Watched(tf.keras.optimizers.SGD):
    """Writes down where the gradients lie by which it updates."""

    def update_step(self, gradient, variable, *learning_rate):
        self.__dict__.setdefault("addresses", []).append(address_of(gradient))
        super().update_step(gradient, variable, *learning_rate)


def case_the_gradients_of_an_optimizer():
    variables = [tf.Variable(tf.zeros([size])) for size in SIZES]
    optimizer = SynchronousSGDOptimizer(Watched(0.1))
    optimizer.build(variables)

    @tf.function
    def run():
        gradients = [tf.random.uniform([size]) for size in SIZES]
        before = [address_of(g) for g in gradients]
        with tf.control_dependencies(before):
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return before, optimizer.addresses

    before, after = run()
    assert before == after and len(set(map(int, before))) == len(SIZES)
