"""DiLoCo and local SGD with codecs, against a simulation in NumPy of their docstrings."""

from __future__ import annotations

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
from codecs_in_numpy import RATE, TOLERANCE, trained
from harness import each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.compression import Cast, Int4, Int8, PowerSGD
from kungfu_tf.optimizers import DiLoCoOptimizer, LocalSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]

STEPS, EVERY = 24, 4
keras = tf.keras
keras.backend.set_floatx("float64")


CODECS = {
    "cast": (lambda: Cast("bfloat16"), codecs.Bfloat16),
    "int8": (lambda: Int8(block=16), lambda: codecs.Quantized(8, 16)),
    "int4": (lambda: Int4(block=16), lambda: codecs.Quantized(4, 16)),
    "power": (
        lambda: PowerSGD(rank=2, min_rate=1),
        lambda: codecs.PowerSGD(rank=2, min_rate=1),
    ),
}
ALL = ["cast", "int8", "int4", "power"]
OUTER, MOMENTUM = 5 / 8, 3 / 4


def simulated(codec, *, outer, momentum, start=0):
    """Each peer's tensors after each step, [rank, ...]."""
    anchors, after = codecs.first(), []
    values = [np.stack([anchor] * kf.size()) for anchor in anchors]
    speeds = [np.zeros_like(anchor) for anchor in anchors]
    for number, targets in enumerate(codecs.targets(STEPS)):
        gradients = [v - t for v, t in zip(values, targets, strict=True)]
        if number < start:
            gradients = [np.broadcast_to(g.mean(axis=0), g.shape) for g in gradients]
        values = [v - RATE * g for v, g in zip(values, gradients, strict=True)]
        if number < start:
            anchors = [v[0] for v in values]
        elif (number + 1 - start) % EVERY == 0:
            means = codec.means([a - v for a, v in zip(anchors, values, strict=True)])
            for i, mean in enumerate(means):
                speeds[i] = momentum * speeds[i] - outer * mean
                anchors[i] = anchors[i] + momentum * speeds[i] - outer * mean
            values = [np.stack([anchor] * kf.size()) for anchor in anchors]
        after.append(values)
    return after


def assert_same(found, expected):
    for number, (mine, of_all) in enumerate(zip(found, expected, strict=True)):
        for one, parts in zip(mine, of_all, strict=True):
            off = np.linalg.norm(one - parts[kf.rank()]) / np.linalg.norm(parts[kf.rank()])
            assert off <= TOLERANCE, f"step {number}: {one.shape} is off by {off:.2g}"


def applying(optimizer):
    return lambda g, variables: optimizer.apply_gradients(list(zip(g, variables, strict=True)))


@each(codec=ALL)
@exhaustive(codec=["power"])
def case_diloco(codec):
    make, in_numpy = CODECS[codec]
    optimizer = DiLoCoOptimizer(
        keras.optimizers.SGD(RATE),
        outer=keras.optimizers.SGD(OUTER, momentum=MOMENTUM, nesterov=True),
        every=EVERY,
        compression=make(),
    )
    found = trained(applying(optimizer), STEPS)
    assert_same(found, simulated(in_numpy(), outer=OUTER, momentum=MOMENTUM))
    assert all(kf.ops.consensus(value) for value in found[-1])


@each(codec=ALL, start=[0, 6])
@exhaustive(codec=["int8"], start=[6])
def case_local_sgd(codec, start):
    make, in_numpy = CODECS[codec]
    optimizer = LocalSGDOptimizer(
        keras.optimizers.SGD(RATE), every=EVERY, start=start, compression=make()
    )
    found = trained(applying(optimizer), STEPS)
    assert_same(found, simulated(in_numpy(), outer=1.0, momentum=0.0, start=start))


def case_samples_count():
    """Movements are weighed by the samples since the last meeting, also with a codec."""
    weights = np.arange(1.0, kf.size() + 1)
    optimizer = DiLoCoOptimizer(
        keras.optimizers.SGD(RATE),
        outer=keras.optimizers.SGD(1.0),
        every=2,
        compression=PowerSGD(rank=2, min_rate=1),
    )
    variables = codecs.variables_of()
    [algorithm] = generations.algorithms_of(optimizer)
    for targets in codecs.targets(2):
        mine = [v - t[kf.rank()] for v, t in zip(variables, targets, strict=True)]
        algorithm._samples.get().assign([weights[kf.rank()] - 1])
        applying(optimizer)(mine, variables)
    values = [np.stack([value] * kf.size()) for value in codecs.first()]
    for targets in codecs.targets(2):
        values = [v - RATE * (v - t) for v, t in zip(values, targets, strict=True)]
    moved = [a - v for a, v in zip(codecs.first(), values, strict=True)]
    shares = weights / weights.mean()
    weighed = [m * shares.reshape(-1, *[1] * (m.ndim - 1)) for m in moved]
    means = codecs.PowerSGD(rank=2, min_rate=1).means(weighed)
    for variable, anchor, mean in zip(variables, codecs.first(), means, strict=True):
        np.testing.assert_allclose(variable.numpy(), anchor - mean, rtol=1e-11, atol=1e-12)


def case_peers_with_different_codecs():
    codec = Int8() if kf.rank() == 1 else Cast("float16")
    optimizer = DiLoCoOptimizer(keras.optimizers.SGD(RATE), compression=codec)
    text = raised_by(tf.errors.InvalidArgumentError, lambda: trained(applying(optimizer), 1))
    assert "Int8(block=256)" in text and "Cast(dtype='float16')" in text, text


def case_arguments():
    for make in (DiLoCoOptimizer, LocalSGDOptimizer):
        text = raised_by(
            TypeError, lambda m=make: m(keras.optimizers.SGD(RATE), every=2, compression="int8")
        )
        assert "compression is a codec" in text, text


def case_graphs_are_refused():
    v1 = tf.compat.v1
    inner = v1.train.GradientDescentOptimizer(RATE)
    optimizer = LocalSGDOptimizer(inner, every=2, compression=Int8())
    with tf.Graph().as_default():
        variable = v1.get_variable("v", [4])
        loss = tf.reduce_sum(variable**2)
        text = raised_by(errors.UnimplementedError, lambda: optimizer.minimize(loss))
    assert "compression" in text and "TF1" in text, text
