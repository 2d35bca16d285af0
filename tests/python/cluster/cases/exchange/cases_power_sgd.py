"""PowerSGD against a simulation of its docstring in NumPy, which has the parts of all peers."""

from __future__ import annotations

import dataclasses

import codecs_in_numpy as codecs
import numpy as np
import tensorflow as tf
import training
from codecs_in_numpy import RATE, assert_same, simulated, trained, variables_of
from harness import Skip, each, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import optimizers
from kungfu_tf.compression import Channel, Codec, PowerSGD
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [
    {"np": 3},
    {"np": 2, "cases": ["an_optimizer", "a_tape"]},
    {"np": 4, "cases": ["an_optimizer", "a_session", "errors_are_shared"]},
]

MODES = ["eager", "function"]
STEPS = 24
keras = tf.keras
keras.backend.set_floatx("float64")
SETTINGS = {"rank": 2, "min_rate": 1}


def optimizers_of(**options):
    """A wrapped one of each family."""
    options = {"compression": PowerSGD(**SETTINGS), **options}
    families = [keras.optimizers]
    if not training.is_keras_3():
        families.append(keras.optimizers.legacy)
    return [SynchronousSGDOptimizer(family.SGD(RATE), **options) for family in families]


def applying(optimizer):
    return lambda g, variables: optimizer.apply_gradients(list(zip(g, variables, strict=True)))


def algorithm_of(optimizer):
    [algorithm] = generations.algorithms_of(optimizer)
    return algorithm


def of_numpy(**changes):
    return codecs.PowerSGD(**{**SETTINGS, **changes})


@each(mode=MODES)
@exhaustive(mode=["function"])
def case_an_optimizer(mode):
    for optimizer in optimizers_of():
        assert_same(trained(applying(optimizer), STEPS, mode), simulated(of_numpy(), STEPS))
        name = f"{algorithm_of(optimizer).name}/gradients"
        done = [libraries.completed(f"{name}/{part}") for part in ("0", "right/0", "1")]
        assert done == [STEPS, STEPS, 0], done


@each(op=["mean", "sum"])
@exhaustive(op=["mean"])
def case_a_tape(op):
    codec = PowerSGD(**SETTINGS)

    def apply(gradients, variables):
        with kf.DistributedGradientTape(tf.GradientTape(), op=op, compression=codec) as tape:
            pairs = zip(gradients, variables, strict=True)
            loss = sum(tf.reduce_sum(tf.stop_gradient(g) * v) for g, v in pairs)
        for v, mean in zip(variables, tape.gradient(loss, variables), strict=True):
            v.assign_sub(RATE * mean)

    factor = kf.size() if op == "sum" else 1
    assert_same(trained(apply, STEPS), simulated(of_numpy(), STEPS, factor=factor))


def case_a_tape_counts_samples():
    """A peer without samples sends what it did not send before."""
    codec = PowerSGD(**SETTINGS)
    counts = np.arange(kf.size())

    def apply(gradients, variables):
        samples = tf.constant(counts[kf.rank()])
        with kf.DistributedGradientTape(
            tf.GradientTape(), samples=samples, compression=codec
        ) as tape:
            pairs = zip(gradients, variables, strict=True)
            loss = sum(tf.reduce_sum(tf.stop_gradient(g) * v) for g, v in pairs)
        for v, mean in zip(variables, tape.gradient(loss, variables), strict=True):
            v.assign_sub(RATE * mean)

    class Weighted(codecs.PowerSGD):
        def means(self, gradients):
            weights = counts * kf.size() / counts.sum()
            return super().means([g * weights.reshape(-1, *[1] * (g.ndim - 1)) for g in gradients])

    assert_same(trained(apply, STEPS), simulated(Weighted(**SETTINGS), STEPS))


def case_a_session():
    v1 = tf.compat.v1
    for start in (0, 5):
        after = []
        with tf.Graph().as_default(), v1.Session() as session:
            given = codecs.first()
            variables = [
                v1.get_variable(f"v{start}{i}", initializer=tf.constant(value), use_resource=True)
                for i, value in enumerate(given)
            ]
            fed = [v1.placeholder(tf.float64, value.shape) for value in given]
            pairs = zip(variables, fed, strict=True)
            loss = sum(tf.reduce_sum(tf.square(v - target)) / 2 for v, target in pairs)
            codec = PowerSGD(start_step=start, **SETTINGS)
            optimizer = SynchronousSGDOptimizer(
                v1.train.GradientDescentOptimizer(RATE), compression=codec
            )
            train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
            session.run(v1.global_variables_initializer())
            for of_step in codecs.targets(STEPS):
                mine = [target[kf.rank()] for target in of_step]
                session.run(train, dict(zip(fed, mine, strict=True)))
                after.append(session.run(variables))
        assert_same(after, simulated(of_numpy(start_step=start), STEPS))


@each(mode=MODES)
@exhaustive(mode=["function"])
def case_the_first_steps_may_be_uncompressed(mode):
    for optimizer in optimizers_of(compression=PowerSGD(start_step=5, **SETTINGS)):
        expected = simulated(of_numpy(start_step=5), STEPS)
        assert_same(trained(applying(optimizer), STEPS, mode), expected)


def case_accumulated_gradients():
    codec = PowerSGD(**SETTINGS)
    if training.is_keras_3():
        inner = keras.optimizers.SGD(RATE, gradient_accumulation_steps=2)
        optimizer = SynchronousSGDOptimizer(inner, compression=codec)
    else:
        inner = keras.optimizers.SGD(RATE)
        optimizer = SynchronousSGDOptimizer(inner, steps_per_update=2, compression=codec)
    found = trained(applying(optimizer), STEPS)
    simulation, values = of_numpy(), codecs.first()
    both = codecs.targets(STEPS)
    for number in range(0, STEPS, 2):
        pairs = zip(values, *both[number : number + 2], strict=True)
        means = simulation.means([v - (one + two) / 2 for v, one, two in pairs])
        values = [v - RATE * mean for v, mean in zip(values, means, strict=True)]
        assert_same([found[number + 1]], [values])


@exhaustive()
def case_clipping_comes_after():
    limit = 0.5
    inner = keras.optimizers.SGD(RATE, global_clipnorm=limit)
    optimizer = SynchronousSGDOptimizer(inner, compression=PowerSGD(**SETTINGS))

    class Clipped(codecs.PowerSGD):
        def means(self, gradients):
            means = super().means(gradients)
            norm = np.sqrt(sum(np.sum(mean**2) for mean in means))
            assert norm > limit
            return [mean * limit / norm for mean in means]

    assert_same(trained(applying(optimizer), STEPS), simulated(Clipped(**SETTINGS), STEPS))


def case_a_loss_scale():
    """A step that is skipped leaves the state as it is. So do changes of the scale."""
    if not training.is_keras_3():
        raise Skip("Keras 2 takes the scale away before")
    [optimizer] = optimizers_of()
    scaled = keras.optimizers.LossScaleOptimizer(
        optimizer, initial_scale=8.0, dynamic_growth_steps=5
    )
    variables, simulation, values = variables_of(), of_numpy(), codecs.first()
    scaled.build(variables)

    def step(spoiled, *of_step):
        gradients = [v - t for v, t in zip(variables, of_step, strict=True)]
        gradients = [scaled.scale_loss(g) for g in gradients]
        gradients[2] = gradients[2] * tf.where(spoiled, np.float64("inf"), 1.0)
        scaled.apply_gradients(list(zip(gradients, variables, strict=True)))

    step = tf.function(step)
    scales = set()
    for number, of_step in enumerate(codecs.targets(STEPS)):
        skipped = number in (3, 4, 11)
        spoiled = skipped and kf.rank() == number % kf.size()
        step(tf.constant(spoiled), *(tf.constant(t[kf.rank()]) for t in of_step))
        if not skipped:
            means = simulation.means([v - t for v, t in zip(values, of_step, strict=True)])
            values = [v - RATE * mean for v, mean in zip(values, means, strict=True)]
        assert_same([[v.numpy() for v in variables]], [values])
        scales.add(float(scaled.dynamic_scale))
    assert len(scales) == 3, scales
    errors = algorithm_of(optimizer).compression.state.errors
    for mine, expected in zip(errors, simulation.errors.values(), strict=True):
        np.testing.assert_allclose(mine, expected[kf.rank()], rtol=1e-10, atol=1e-12)


@each(mode=MODES)
@exhaustive(mode=["function"])
def case_gradients_that_are_not_finite(mode):
    """All matrices get NaN on all peers, and the state stays."""
    [optimizer, *_] = optimizers_of()
    variables = variables_of()
    trained(applying(optimizer), 3, mode, variables)
    state = algorithm_of(optimizer).compression.state.variables
    before = [v.numpy() for v in state]
    bad = [tf.ones_like(v) for v in variables]
    if kf.rank() == 1:
        bad[1] = tf.fill(bad[1].shape, tf.constant(np.inf, tf.float64))
    step = lambda: applying(optimizer)(bad, variables)  # noqa: E731
    (tf.function(step) if mode == "function" else step)()
    assert np.all(np.isnan(variables[0].numpy())) and np.all(np.isnan(variables[1].numpy()))
    assert np.all(np.isfinite(variables[2].numpy()))
    for variable, value in zip(state, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


@each(mode=MODES)
@exhaustive(mode=["function"])
def case_sparse_rows_travel_as_they_are(mode):
    """And where they are not finite, what the others lack stays."""
    [optimizer, *_] = optimizers_of()
    table, matrix = tf.Variable(tf.zeros([6, 2], tf.float64)), tf.Variable(codecs.first()[0])
    rank = kf.rank()

    def step(factor):
        rows = tf.IndexedSlices(
            factor * tf.ones([1, 2], tf.float64), tf.constant([rank]), tf.constant([6, 2])
        )
        optimizer.apply_gradients([(rows, table), (matrix - rank, matrix)])

    step = tf.function(step) if mode == "function" else step
    step(tf.constant(1.0, tf.float64))
    expected = np.zeros([6, 2])
    expected[: kf.size()] = -RATE / kf.size()
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-12)
    [error] = algorithm_of(optimizer).compression.state.errors
    before = error.numpy()
    assert np.abs(before).max() > 0
    step(tf.constant(np.nan if rank == 0 else 1.0, tf.float64))
    np.testing.assert_array_equal(error.numpy(), before)


@each(dtype=["float16", "bfloat16", "float32"])
@exhaustive(dtype=["bfloat16"])
def case_dtypes(dtype):
    """Those of 16 bits are computed in float32. Peers are equal."""
    variable = tf.Variable(tf.cast(codecs.first()[0], dtype))
    codec = PowerSGD(**SETTINGS)
    [target] = codecs.targets(1, [(12, 10)])[0]
    with kf.DistributedGradientTape(tf.GradientTape(), compression=codec) as tape:
        difference = variable - tf.cast(target[kf.rank()], dtype)
        loss = tf.reduce_sum(difference * tf.stop_gradient(difference))
    mean = tape.gradient(loss, variable)
    assert mean.dtype == dtype
    expected = of_numpy().means([codecs.first()[0] - target])[0]
    np.testing.assert_allclose(tf.cast(mean, tf.float64), expected, rtol=0.1, atol=0.02)
    assert kf.ops.consensus(tf.cast(mean, tf.float32))
    assert codec.state.errors[0].dtype == tf.float32


def case_errors_are_shared():
    """Their mean alone matters, so the training is the same with it on all peers."""
    [optimizer, *_] = optimizers_of()
    variables, codec = variables_of(), algorithm_of(optimizer).compression
    expected = simulated(of_numpy(), STEPS)
    apply = applying(optimizer)

    def step(*of_step):
        apply([v - t for v, t in zip(variables, of_step, strict=True)], variables)

    step = tf.function(step)
    for number, of_step in enumerate(codecs.targets(STEPS)):
        step(*(tf.constant(target[kf.rank()]) for target in of_step))
        assert_same([[v.numpy() for v in variables]], [expected[number]])
        if number in (4, 9):
            assert not kf.ops.consensus(codec.state.errors[0])
            algorithm_of(optimizer).share_state()
            assert all(kf.ops.consensus(v) for v in codec.state.variables)


@exhaustive()
def case_the_state_continues_a_training():
    """With `share` before, a training continues where it was."""
    [optimizer, *_] = optimizers_of(compression=PowerSGD(start_step=2, **SETTINGS))
    variables = variables_of()
    found = trained(applying(optimizer), 8, "function", variables)
    algorithm = algorithm_of(optimizer)
    algorithm.share_state()
    kept = {
        "state": [v.numpy() for v in algorithm.state.variables],
        "variables": [v.numpy() for v in variables],
    }
    [other, *_] = optimizers_of(compression=PowerSGD(start_step=2, **SETTINGS))
    algorithm_of(other).build(variables)
    for variable, value in zip(algorithm_of(other).state.variables, kept["state"], strict=True):
        variable.assign(value)
    expected = simulated(of_numpy(start_step=2), STEPS)
    assert_same(found, expected[:8])
    step = tf.function(lambda g: applying(other)(g, variables))
    for number, of_step in enumerate(codecs.targets(STEPS)[8:], start=8):
        step([v - t[kf.rank()] for v, t in zip(variables, of_step, strict=True)])
        assert_same([[v.numpy() for v in variables]], [expected[number]])


def case_peers_with_different_codecs():
    """Both are named, on all peers."""
    mine = PowerSGD(rank=1) if kf.rank() == 1 else PowerSGD(rank=2)
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=mine)
    error = tf.errors.InvalidArgumentError
    text = raised_by(error, lambda: trained(applying(optimizer), 1))
    assert "rank=1" in text and "rank=2" in text and "rank 1 (" in text, text
    codec = mine if kf.rank() == 1 else None
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=codec)
    text = raised_by(error, lambda: trained(applying(optimizer), 1))
    assert "rank=1" in text and "None" in text, text


def case_sessions_with_different_codecs():
    v1 = tf.compat.v1
    codec = PowerSGD(**SETTINGS) if kf.rank() == 1 else None
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=tf.ones([12, 10]))
        inner = v1.train.GradientDescentOptimizer(RATE)
        train = SynchronousSGDOptimizer(inner, compression=codec).minimize(
            tf.reduce_sum(variable**2)
        )
        session.run(v1.global_variables_initializer())
        text = raised_by(tf.errors.InvalidArgumentError, lambda: session.run(train))
    assert "differs between" in text, text


def case_a_codec_of_ones_own():
    """Its fields are its settings, and the channel's means are those of all peers."""

    @dataclasses.dataclass(kw_only=True, eq=False)
    class Signs(Codec):
        size: float = 0.5

        def means(self, values, variables, channel):
            assert isinstance(channel, Channel)
            signs = [tf.cast(tf.sign(value), tf.float16) for value in values]
            return [self.size * tf.cast(mean, tf.float64) for mean in channel.mean(signs)]

    [optimizer, *_] = optimizers_of(compression=Signs(size=0.25))
    variable = tf.Variable(tf.zeros([3], tf.float64))
    applying(optimizer)([tf.constant([7.0, -2, kf.rank() - 1.0], tf.float64)], [variable])
    signs = np.mean([[1, -1, np.sign(rank - 1)] for rank in range(kf.size())], axis=0)
    np.testing.assert_allclose(variable, -RATE * 0.25 * signs, atol=1e-4)
    assert repr(algorithm_of(optimizer).compression).endswith("Signs(size=0.25)")


def case_monitors_refuse_codecs():
    codec = PowerSGD(**SETTINGS)
    for monitor in (
        lambda o: optimizers.MonitorGradientNoiseScaleOptimizer(o, 8, compression=codec),
        lambda o: optimizers.MonitorGradientVarianceOptimizer(o, compression=codec),
    ):
        text = raised_by(ValueError, lambda m=monitor: m(keras.optimizers.SGD(RATE)))
        assert "compression cannot be" in text and "SynchronousSGDOptimizer" in text, text


def case_arguments():
    for name, value in {"rank": 0, "start_step": -1, "min_rate": 0.5}.items():
        assert name in raised_by(ValueError, lambda n=name, v=value: PowerSGD(**{n: v}))
    for name, value in {"rank": 1.5, "start_step": None, "min_rate": "2"}.items():
        assert name in raised_by(TypeError, lambda n=name, v=value: PowerSGD(**{n: v}))
    for given in ("fp16", PowerSGD):
        for make in (
            lambda c: SynchronousSGDOptimizer(keras.optimizers.SGD(RATE), compression=c),
            lambda c: kf.DistributedGradientTape(tf.GradientTape(), compression=c),
        ):
            text = raised_by(TypeError, lambda m=make, c=given: m(c))
            assert "compression" in text and "PowerSGD(" in text, text
