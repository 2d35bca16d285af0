"""Every optimizer of Keras, and every option: two peers train like one process on all samples.

All is computed in float64, and the weights of the two agree to 1e-12, unless a case says otherwise.
How often gradients were exchanged is counted.
"""

from __future__ import annotations

import inspect

import numpy as np
import tensorflow as tf
import training
from harness import each

import kungfu_tf as kf
from kungfu_tf import _keras, errors
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

FEATURES = 3
BATCH = 4  # of one peer
STEPS = 6
TOLERANCE = 1e-12

[cpu] = tf.config.list_physical_devices("CPU")
two_devices = [tf.config.LogicalDeviceConfiguration()] * 2  # for tf.distribute
tf.config.set_logical_device_configuration(cpu, two_devices)

keras = tf.keras
layers = keras.layers
keras.backend.set_floatx("float64")
IS_KERAS_3 = training.is_keras_3()
FAMILIES = [keras.optimizers] if IS_KERAS_3 else [keras.optimizers, keras.optimizers.legacy]

# fmt: off
NAMES = [
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "Muon",
    "Nadam", "RMSprop", "SGD", "ScheduleFreeAdamW",
]
OPTION_NAMES = [
    "clipnorm", "clipvalue", "global_clipnorm", "weight_decay", "ema", "ema at the end",
    "loss_scale_factor", "accumulation", "accumulation, clipnorm", "accumulation, ema",
]
SCHEDULES = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay",
    "PiecewiseConstantDecay", "PolynomialDecay",
]
# fmt: on
RATES = {"Adadelta": 20.0, "SGD": 0.1}  # so large that every weight moves


def samples():
    random = np.random.default_rng(seed=7)
    x = random.normal(size=(STEPS * BATCH * kf.size(), FEATURES))
    return x, np.sin(x.sum(axis=1, keepdims=True))


def batches(data, is_whole, is_fixed=True):
    """Those of one process, or this peer's part of each; whose size the program knows, or not."""
    dataset = tf.data.Dataset.from_tensor_slices(data)
    if is_whole:
        return dataset.batch(BATCH * kf.size(), drop_remainder=is_fixed)
    return kf.data.shard(dataset).batch(BATCH, drop_remainder=is_fixed)


def dense_model():
    return keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(4, "tanh", bias_initializer="ones"),
            layers.Dense(1, bias_initializer="ones"),
        ]
    )


def fitted(make_model, optimizer, data, is_whole, seed=11, callbacks=(), is_fixed=True, **options):
    """A model that was trained, and the weights it had before if it had any."""
    keras.utils.set_random_seed(seed)
    model = make_model()
    before = training.values_of(model.trainable_variables) if model.built else []
    if model.built and is_whole:
        # As all optimizers of several peers are, before the first step. Keras 3.15 lets some
        # (ScheduleFreeAdamW) begin elsewhere if they are built while the step is traced.
        _keras.build(optimizer, model.trainable_variables)
    model.compile(optimizer, "mse", **options)
    dataset = batches(data, is_whole, is_fixed)
    model.fit(dataset, verbose=0, callbacks=[make() for make in callbacks])
    return model, before


def assert_equal(model, single, tolerance=TOLERANCE):
    """The weights are those of the single process, and the same on all peers."""
    weights = training.values_of(model.trainable_variables)
    assert kf.ops.consensus(np.int64(training.digest(weights)))
    for i, (found, expected) in enumerate(
        zip(weights, training.values_of(single.trainable_variables), strict=True)
    ):
        off = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert off <= tolerance, f"variable {i} is off by {off:.2g}"


def check(make_optimizer, make_model=dense_model, *, updates=STEPS, tolerance=TOLERANCE, **options):
    """Trains both. The peers begin with different weights; those of rank 0 are the single's."""
    data = samples()
    single, before = fitted(make_model, make_optimizer(), data, True, **options)
    optimizer = SynchronousSGDOptimizer(make_optimizer())
    model, _ = fitted(make_model, optimizer, data, False, seed=11 + kf.rank(), **options)
    assert_equal(model, single, tolerance)
    assert set(training.completed(optimizer)) == {updates}, training.completed(optimizer)
    for i, (first, last) in enumerate(
        zip(before, training.values_of(single.trainable_variables), strict=bool(before))
    ):
        assert np.linalg.norm(last - first) >= 1e-3 * np.linalg.norm(last), f"{i} did not move"


def makers(name):
    """What makes the optimizer, in each family that has it."""
    found = [getattr(family, name) for family in FAMILIES if hasattr(family, name)]
    return [lambda cls=cls, **options: cls(RATES.get(name, 0.05), **options) for cls in found]


@each(name=NAMES)
def case_optimizer(name):
    for make in makers(name):
        check(make)


def case_these_are_all_optimizers():
    found = {
        name
        for family in FAMILIES
        for name, cls in vars(family).items()
        if inspect.isclass(cls) and issubclass(cls, family.Optimizer)
    }
    assert found - {"LossScaleOptimizer", "MultiOptimizer", "Optimizer"} <= set(NAMES)


OPTIONS = {
    "clipnorm": {"clipnorm": 0.1},
    "clipvalue": {"clipvalue": 0.05},
    "global_clipnorm": {"global_clipnorm": 0.1},
    "weight_decay": {"weight_decay": 0.1},
    "ema": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "ema at the end": {"use_ema": True, "ema_momentum": 0.5},
    "loss_scale_factor": {"loss_scale_factor": 8.0},
    "accumulation": {"gradient_accumulation_steps": 3},
    "accumulation, clipnorm": {"gradient_accumulation_steps": 3, "clipnorm": 0.1},
    "accumulation, ema": {"gradient_accumulation_steps": 2, "use_ema": True, "ema_momentum": 0.5},
}


def updates_with(options):
    return STEPS // options.get("gradient_accumulation_steps", 1)


def makers_with(name, options):
    """Those of the families that know the options."""
    found = []
    for make in makers(name):
        try:
            make(**options)
        except (TypeError, ValueError) as error:
            assert any(name in str(error) for name in options), error
            continue
        found.append(lambda make=make: make(**options))
    assert found or not training.is_keras_3()
    return found


@each(option=OPTION_NAMES, name=["SGD", "Adam"])
def case_option(option, name):
    options = OPTIONS[option]
    for make in makers_with(name, options):
        check(make, updates=updates_with(options))


@each(how=["run_eagerly", "steps_per_execution"], option=["ema", "accumulation, clipnorm"])
def case_option_of_fit(how, option):
    options = OPTIONS[option]
    how = {"run_eagerly": True} if how == "run_eagerly" else {"steps_per_execution": 3}
    for make in makers_with("Adam", options):
        check(make, updates=updates_with(options), **how)


@each(schedule=SCHEDULES)
def case_schedule(schedule):
    arguments = {
        "ExponentialDecay": (0.2, 2, 0.5),
        "InverseTimeDecay": (0.2, 2, 0.5),
        "PiecewiseConstantDecay": ([2, 4], [0.2, 0.1, 0.05]),
    }.get(schedule, (0.2, 4))
    make = getattr(keras.optimizers.schedules, schedule)
    check(lambda: keras.optimizers.SGD(make(*arguments), momentum=0.9))


class HalvesTheRate(keras.callbacks.Callback):
    """By the optimizer that the model has, as programs do."""

    def on_train_batch_end(self, batch, logs=None):
        rate = self.model.optimizer.learning_rate
        self.model.optimizer.learning_rate = float(_keras.native(rate)) / 2


def case_the_learning_rate_is_changed_through_the_wrapper():
    for make in makers("Adam"):
        check(make, callbacks=[HalvesTheRate])


def embedding_model():
    """Its first layer's gradient is IndexedSlices, with rows that several samples share."""
    return keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Lambda(lambda x: tf.cast(tf.abs(x) * 3, tf.int32) % 5, output_shape=(FEATURES,)),
            layers.Embedding(5, 4),
            layers.Flatten(),
            layers.Dense(1, bias_initializer="ones"),
        ]
    )


@each(option=["plain", "weight_decay", "ema", "accumulation"], name=["SGD", "Adam"])
def case_slices(option, name):
    options = OPTIONS.get(option, {})
    for make in makers_with(name, options):
        check(make, embedding_model, updates=updates_with(options))


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
    """As a whole all gradients travel in each step; of parts each knows when its own must."""
    if not IS_KERAS_3:
        return  # has no MultiOptimizer
    data = samples()
    single, _ = fitted(dense_model, several(False), data, True)
    optimizer = several(wrapped == "parts")
    optimizer = SynchronousSGDOptimizer(optimizer) if wrapped == "whole" else optimizer
    model, _ = fitted(dense_model, optimizer, data, False, seed=11 + kf.rank())
    assert_equal(model, single)
    parts = [optimizer] if wrapped == "whole" else optimizer.optimizers
    counts = [training.completed(part) for part in parts]
    assert sorted(counts) == ([[STEPS]] if wrapped == "whole" else [[STEPS // 2], [STEPS]])


@each(option=["plain", "accumulation"])
def case_quantised_layers(option):
    """Their scales are not averaged: they follow what all peers have seen, as in one process.

    Only those of the gradients of outputs do not, which are larger in a smaller batch.
    """
    if not IS_KERAS_3:
        return  # has none
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
    return float(_keras.native(scale) if IS_KERAS_3 else scale)


@each(wrapped=["outside", "inside"], option=["plain", "clipnorm", "accumulation, ema"])
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
        assert scale_of(optimizer) == scale_of(single.optimizer) == 8.0
        [inner] = [part for part in _keras.parts_of(optimizer) if hasattr(part, "kungfu_algorithm")]
        # Five of six steps make two updates of two.
        assert training.completed(inner) == [STEPS if updates_with(options) == STEPS else 2]


@each(policy=["mixed_float16", "mixed_bfloat16"])
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
    if not IS_KERAS_3:
        return  # has no MultiOptimizer
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
