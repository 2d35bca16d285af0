"""Buckets of gradients travel while the backward pass computes those of earlier layers."""

from __future__ import annotations

import tensorflow as tf
import training

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations
from tests.waiting import until

JOBS = [{"np": 2}]

LAYERS, WIDTH = 3, 4
ONE_LAYER = WIDTH * WIDTH * 4  # bytes


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
    optimizer = SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1), bucket_bytes=ONE_LAYER)
    optimizer.build(weights)
    [algorithm] = generations.algorithms_of(optimizer)
    reduced = []

    def hold(array):
        """Lets the first layer's gradient pass once the bucket of the last layer is reduced."""

        def is_reduced(bucket):
            return libraries.completed(f"{algorithm.name}/gradients/{bucket}")

        until(lambda: is_reduced(0), lambda: "the last layer's gradient without the first one's")
        reduced.append([is_reduced(0), is_reduced(LAYERS - 1)])
        return array

    def seen(gradient):
        # Not stateful, or it would run in the order of the program.
        held = tf.numpy_function(hold, [gradient], gradient.dtype, stateful=False)
        return tf.ensure_shape(held, gradient.shape)

    watched = tf.custom_gradient(lambda w: (tf.identity(w), seen))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            y = tf.ones([2, WIDTH]) * (1.0 + kf.rank())
            for i, w in enumerate(weights):
                y = tf.tanh(y @ (watched(w) if i == 0 else w))
            loss = tf.reduce_mean(y)
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    step()
    assert reduced == [[1, 0]]
    assert training.completed(optimizer) == [1] * LAYERS
