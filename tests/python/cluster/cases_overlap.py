"""Buckets of gradients travel while the backward pass computes those of earlier layers."""

from __future__ import annotations

import threading

import tensorflow as tf
import training

import kungfu_tf as kf
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.optimizers.sync_sgd import SynchronousSGD

JOBS = [{"np": 2}]

LAYERS, WIDTH = 3, 4
ONE_LAYER = WIDTH * WIDTH * 4  # bytes
PATIENCE = 60  # seconds; only a case that fails ever waits so long


def ancestors(op):
    """All operations that must have run before `op`."""
    found, todo = set(), [op]
    while todo:
        last = todo.pop()
        before = {*last.control_inputs, *(x.op for x in last.inputs)} - found
        found |= before
        todo += before
    return found


def computed(x):
    """The operation that has computed a tensor, behind those that hand it on."""
    while x.op.type in ("Identity", "IdentityN"):
        x = x.op.inputs[x.value_index]
    return x.op


def case_no_bucket_waits_for_what_it_does_not_carry():
    for make in training.keras_optimizers("sgd"):
        layers = [tf.keras.layers.Dense(WIDTH, use_bias=False) for _ in range(LAYERS)]
        model = tf.keras.Sequential([tf.keras.layers.Input((WIDTH,)), *layers])
        model.compile(SynchronousSGDOptimizer(make(), bucket_bytes=ONE_LAYER), "mse")
        x = tf.ones([2, WIDTH])
        graph = tf.function(lambda m=model, x=x: m.train_step((x, x))).get_concrete_function().graph
        buckets = [op for op in graph.get_operations() if op.type == "KungfuGroupAllReduce"]
        assert len(buckets) == LAYERS
        gradients = [computed(bucket.inputs[0]) for bucket in buckets]
        assert {gradient.type for gradient in gradients} == {"MatMul"}
        for i, bucket in enumerate(buckets):
            # Neither for another bucket nor for the gradients of earlier layers.
            assert ancestors(bucket).isdisjoint([*buckets, *gradients[i + 1 :]])


def case_the_first_bucket_is_reduced_before_the_last_gradient_is_there():
    weights = [tf.Variable(tf.ones([WIDTH, WIDTH])) for _ in range(LAYERS)]
    order, reduced = [], threading.Event()

    def seen_by(function, x):
        # Not stateful, or they would run in the order of the program.
        seen = tf.numpy_function(function, [x], x.dtype, stateful=False)
        return tf.ensure_shape(seen, x.shape)

    class Watched(SynchronousSGD):
        def gradients(self, gradients, variables, *, step=None):
            def note(array):
                order.append([libraries.completed(f"{self.exchange}/{i}") for i in (0, LAYERS - 1)])
                reduced.set()
                return array

            *means, last = super().gradients(gradients, variables, step=step)
            return [*means, seen_by(note, last)]

    def hold(array):
        assert reduced.wait(PATIENCE), "the last layer's gradient waits for the first one's"
        order.append("the first layer's gradient")
        return array

    optimizer = wrap(tf.keras.optimizers.SGD(0.1), lambda: Watched(ONE_LAYER))
    optimizer.build(weights)
    held = tf.custom_gradient(lambda w: (tf.identity(w), lambda g: seen_by(hold, g)))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            y = tf.ones([2, WIDTH]) * (1.0 + kf.rank())
            for i, w in enumerate(weights):
                y = tf.tanh(y @ (held(w) if i == 0 else w))
            loss = tf.reduce_mean(y)
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    step()
    assert order == [[1, 0], "the first layer's gradient"]
    assert training.completed(optimizer) == [1] * LAYERS
