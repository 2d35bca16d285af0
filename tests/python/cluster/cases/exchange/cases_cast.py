"""Gradients that travel with 16 bits."""

from __future__ import annotations

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
from codecs_in_numpy import RATE, trained
from harness import each, exhaustive
from support import numpy_dtype, raised_by

import kungfu_tf as kf
from kungfu_tf.compression import Cast
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}, {"np": 2, "cases": ["an_optimizer"]}]

MODES = ["eager", "function"]
STEPS = 20
keras = tf.keras
HALVES = ["bfloat16", "float16"]


@each(dtype=HALVES, mode=MODES)
@exhaustive(dtype=["bfloat16"], mode=["function"])
def case_an_optimizer(dtype, mode):
    """Bit for bit: what is sent is rounded, and so is the mean, which is made in float32."""
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=Cast(dtype))
    variables = [tf.Variable(tf.cast(v, tf.float32)) for v in codecs.first()]

    def apply(gradients, variables):
        optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))

    after = trained(apply, STEPS, mode, variables)
    half = numpy_dtype(dtype)
    values = [value.astype(np.float32) for value in codecs.first()]
    for mine, of_step in zip(after, codecs.targets(STEPS), strict=True):
        targets = [target.astype(np.float32) for target in of_step]
        rounded = [(v - t).astype(half) for v, t in zip(values, targets, strict=True)]
        totals = [sum(part.astype(np.float32) for part in parts) for parts in rounded]
        means = [(total / np.float32(kf.size())).astype(half) for total in totals]
        values = [
            v - np.float32(RATE) * mean.astype(np.float32)
            for v, mean in zip(values, means, strict=True)
        ]
        for one, other in zip(mine, values, strict=True):
            np.testing.assert_array_equal(one, other)
    [algorithm] = generations.algorithms_of(optimizer)
    assert libraries.completed(f"{algorithm.name}/gradients/0") == STEPS


def case_buckets_are_planned_by_what_is_sent():
    optimizer = SynchronousSGDOptimizer(
        keras.optimizers.SGD(RATE), compression=Cast("bfloat16"), bucket_bytes=40
    )
    variables = [tf.Variable(tf.zeros([10])) for _ in range(4)]  # 20 bytes of each travel
    optimizer.apply_gradients([(tf.ones_like(v), v) for v in variables])
    [algorithm] = generations.algorithms_of(optimizer)
    done = [libraries.completed(f"{algorithm.name}/gradients/{i}") for i in range(3)]
    assert done == [1, 1, 0], done


def case_what_has_16_bits_travels_as_it_is():
    for dtype in HALVES:
        variable = tf.Variable(tf.zeros([4], dtype))
        with kf.DistributedGradientTape(tf.GradientTape(), compression=Cast("bfloat16")) as tape:
            loss = tf.reduce_sum(variable * tf.constant(0.1, dtype))
        mean = tape.gradient(loss, variable)
        assert mean.dtype == dtype
        np.testing.assert_array_equal(mean, tf.fill([4], tf.constant(0.1, dtype)))


def case_arguments():
    assert repr(Cast("float16")) == repr(Cast(tf.float16)) == "Cast(dtype='float16')"
    for dtype in ("float32", "int8", tf.float64):
        assert "bfloat16" in raised_by(ValueError, lambda d=dtype: Cast(d))
    for dtype in ("half16", object()):
        text = raised_by(TypeError, lambda d=dtype: Cast(d))
        assert "Cast: dtype is 'bfloat16' or 'float16'" in text, text


def case_peers_with_different_dtypes():
    codec = Cast(HALVES[kf.rank() % 2])
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=codec)
    variable = tf.Variable([1.0])
    text = raised_by(
        tf.errors.InvalidArgumentError,
        lambda: optimizer.apply_gradients([(tf.constant([1.0]), variable)]),
    )
    assert "Cast(dtype='float16') on rank 1" in text and "Cast(dtype='bfloat16')" in text, text
