"""Every kind of model, and of several optimizers: peers train like one process on all samples.

All is computed in float64, and the weights of the two agree to 1e-12, unless a case says otherwise.
How often gradients were exchanged is counted.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each, exhaustive
from matrix import (
    BATCH,
    FEATURES,
    IS_KERAS_3,
    OPTIONS,
    STEPS,
    assert_equal,
    batches,
    check,
    dense_model,
    fitted,
    keras,
    layers,
    makers,
    makers_with,
    samples,
    updates_with,
)

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 2, "alone": True}]  # devices are set

[cpu] = tf.config.list_physical_devices("CPU")
two_devices = [tf.config.LogicalDeviceConfiguration()] * 2  # for tf.distribute
tf.config.set_logical_device_configuration(cpu, two_devices)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(4, "tanh", bias_initializer="ones")
        self.last = layers.Dense(1, bias_initializer="ones")

    def call(self, x, training=False):
        return self.last(self.hidden(x))


def functional_model():
    x = layers.Input((FEATURES,))
    hidden = layers.Dense(4, "tanh", bias_initializer="ones")(x)
    return keras.Model(x, layers.Dense(1)(layers.Concatenate()([x, hidden])))


def model_without_input():
    return keras.Sequential([layers.Dense(4, "tanh", bias_initializer="ones"), layers.Dense(1)])


@each(
    model=["functional_model", "model_without_input", "Subclassed"],
    batches=["fixed", "of unknown size", "of unknown size, eager"],
)
@exhaustive(model=["functional_model"], batches=["fixed"])
@exhaustive(model=["model_without_input", "Subclassed"], batches=["of unknown size"])
def case_model(model, batches):
    options = {"is_fixed": batches == "fixed", "run_eagerly": "eager" in batches}
    for make in makers("Adam")[:1]:
        check(make, globals()[model], **options)


def several(wrap_parts):
    """One for kernels and one for biases, which makes an update of two steps if it can."""
    part = SynchronousSGDOptimizer if wrap_parts else (lambda optimizer: optimizer)
    family = keras.optimizers
    return family.MultiOptimizer(
        family.OptimizerMap(
            part(family.SGD(0.1, momentum=0.9)),
            {".*bias": part(family.Adam(0.05, gradient_accumulation_steps=2))},
        )
    )


@each(wrapped=["whole", "parts"])
def case_several_optimizers(wrapped):
    """Each part's gradients travel when it needs them."""
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        raise Skip("Keras before 3.13 has no MultiOptimizer")
    data = samples()
    single, _ = fitted(dense_model, several(False), data, True)
    optimizer = several(wrapped == "parts")
    optimizer = SynchronousSGDOptimizer(optimizer) if wrapped == "whole" else optimizer
    model, _ = fitted(dense_model, optimizer, data, False, seed=11 + kf.rank())
    assert_equal(model, single)
    counts = [training.completed(part) for part in optimizer.optimizers]
    assert sorted(counts) == [[STEPS // 2], [STEPS]]
    again = type(optimizer).from_config(optimizer.get_config())
    assert generations.is_wrapped(again) == (wrapped == "whole")


@each(option=["plain", "accumulation"])
@exhaustive(option=["accumulation"])
def case_quantised_layers(option):
    """Their scales are not averaged: they follow what all peers have seen, as in one process.

    Only those of the gradients of outputs do not, which are larger in a smaller batch.
    """
    if not IS_KERAS_3:
        raise Skip("Keras 2 has no quantised layers")
    data = samples()
    options = OPTIONS.get(option, {})

    def model():
        made = dense_model()
        for layer in made.layers:
            layer.quantize("float8")
        return made

    single, _ = fitted(model, keras.optimizers.SGD(0.1, **options), data, True)
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1, **options))
    run, _ = fitted(model, optimizer, data, False, seed=11 + kf.rank())
    found = dict(
        zip(
            [v.path.split("/", 1)[1] for v in run.trainable_variables],
            training.values_of(run.trainable_variables),
            strict=True,
        )
    )
    assert kf.ops.consensus(np.int64(training.digest(list(found.values()))))
    for (path, value), expected in zip(
        found.items(), training.values_of(single.trainable_variables), strict=True
    ):
        if "scale" in path or "amax" in path:
            factor = kf.size() if "grad" in path else 1
            np.testing.assert_allclose(value, expected * factor, rtol=0.1, err_msg=path)
        else:
            np.testing.assert_allclose(value, expected, rtol=0.05, atol=0.02, err_msg=path)


class Gan(keras.Model):
    """Two models, each with an optimizer of its own."""

    def __init__(self):
        super().__init__()
        self.generator, self.critic = dense_model(), dense_model()

    def compile(self, optimizers):
        super().compile()
        self.generators_optimizer, self.critics_optimizer = optimizers

    def train_step(self, data):
        real, noise = data[0], tf.concat([data[1]] * FEATURES, axis=1)
        with tf.GradientTape(persistent=True) as tape:
            made = self.generator(noise) * real
            fake, true = self.critic(made), self.critic(real)
            critics_loss = tf.reduce_mean(tf.square(true - 1) + tf.square(fake))
            generators_loss = tf.reduce_mean(tf.square(fake - 1))
        for model, loss, optimizer in (
            (self.critic, critics_loss, self.critics_optimizer),
            (self.generator, generators_loss, self.generators_optimizer),
        ):
            variables = model.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": generators_loss}


@each(is_fixed=[True, False])
@exhaustive(is_fixed=[False])
def case_gan(is_fixed):
    data = samples()

    def trained(optimizers, is_whole, seed=11):
        keras.utils.set_random_seed(seed)
        gan = Gan()
        gan.compile(optimizers)
        gan.fit(batches(data, is_whole, is_fixed), verbose=0)
        return gan

    def make():
        return [keras.optimizers.Adam(0.05), keras.optimizers.SGD(0.05, momentum=0.9)]

    single = trained(make(), True)
    wrapped = [SynchronousSGDOptimizer(optimizer) for optimizer in make()]
    gan = trained(wrapped, False, seed=11 + kf.rank())
    assert_equal(gan, single)
    assert [training.completed(optimizer) for optimizer in wrapped] == [[STEPS]] * 2


def loss_scaled(optimizer):
    family = keras.optimizers if IS_KERAS_3 else keras.mixed_precision
    return family.LossScaleOptimizer(optimizer, initial_scale=16.0)


def scale_of(optimizer):
    scale = optimizer.dynamic_scale if IS_KERAS_3 else optimizer.loss_scale
    return float(generations.native(scale) if IS_KERAS_3 else scale)


@each(wrapped=["outside", "inside"], option=["plain", "clipnorm", "accumulation, ema"])
@exhaustive(option=["plain", "accumulation, ema"])
def case_loss_scale(wrapped, option):
    """In the third step of one peer there is an infinity: all skip it, as the single process."""
    options = OPTIONS.get(option, {})
    x, y = samples()
    y[2 * BATCH * kf.size() + 1] = np.inf
    for make in makers_with("SGD", options):
        single, _ = fitted(dense_model, loss_scaled(make()), (x, y), True)
        if wrapped == "outside":
            optimizer = SynchronousSGDOptimizer(loss_scaled(make()))
        else:
            optimizer = loss_scaled(SynchronousSGDOptimizer(make()))
        model, _ = fitted(dense_model, optimizer, (x, y), False, seed=11 + kf.rank())
        assert_equal(model, single)
        assert scale_of(optimizer) == 8.0
        assert not kf.is_root() or scale_of(single.optimizer) == 8.0
        [inner] = [
            part for part in generations.parts_of(optimizer) if hasattr(part, "kungfu_algorithm")
        ]
        # Five of six steps make two updates of two. What accumulates is looked at before.
        accumulates = "gradient_accumulation_steps" in options
        skipped = 1 if accumulates and training.clips_each_gradient() else 0
        expected = STEPS - skipped if updates_with(options) == STEPS else 2
        assert training.completed(inner) == [expected]


@each(policy=["mixed_float16", "mixed_bfloat16"])
@exhaustive(policy=["mixed_float16"])
def case_mixed(policy):
    """As exact as the dtype: its rounding errors depend on the size of a batch."""
    tolerance = {"mixed_float16": 1e-2, "mixed_bfloat16": 1e-1}[policy]
    previous = keras.mixed_precision.global_policy().name
    keras.mixed_precision.set_global_policy(policy)
    try:
        for make in makers("SGD"):
            check(lambda make=make: loss_scaled(make()), tolerance=tolerance)
    finally:
        keras.mixed_precision.set_global_policy(previous)


def case_several_optimizers_that_scale_the_loss():
    """What is inside agrees on whether there is an update."""
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        raise Skip("Keras before 3.13 has no MultiOptimizer")
    x, y = samples()
    y[2 * BATCH * kf.size() + 1] = np.inf
    single, _ = fitted(dense_model, loss_scaled(several(False)), (x, y), True)
    optimizer = several(True)
    model, _ = fitted(dense_model, loss_scaled(optimizer), (x, y), False, seed=11 + kf.rank())
    assert_equal(model, single)
    counts = [training.completed(part) for part in optimizer.optimizers]
    assert sorted(counts) == [[2], [STEPS - 1]]


@each(wrapped=["in the scope", "before"])
def case_replicas_are_refused(wrapped):
    """Each would take part as this peer."""
    optimizer = keras.optimizers.SGD(0.1)
    if wrapped == "before":
        SynchronousSGDOptimizer(optimizer)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    try:
        with strategy.scope():
            if wrapped == "in the scope":
                SynchronousSGDOptimizer(optimizer)
            variable = tf.Variable([1.0])
            strategy.run(lambda: optimizer.apply_gradients([(tf.ones([1]), variable)]))
    except errors.UnimplementedError as error:
        assert "MirroredStrategy runs 2 replicas" in str(error)
        assert "kungfu-run -np" in str(error)
    else:
        raise AssertionError("not refused")


def case_one_replica_is_right():
    """As a strategy for all devices makes, in a process that sees one."""
    data = samples()
    single, _ = fitted(dense_model, keras.optimizers.Adam(0.05), data, True)
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        optimizer = SynchronousSGDOptimizer(keras.optimizers.Adam(0.05))
        model, _ = fitted(dense_model, optimizer, data, False, seed=11 + kf.rank())
    assert_equal(model, single)
    assert training.completed(optimizer) == [STEPS]
