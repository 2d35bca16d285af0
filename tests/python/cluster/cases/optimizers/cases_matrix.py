"""Every optimizer of Keras, and every option: two peers train like one process on all samples.

All is computed in float64, and the weights of the two agree to 1e-12, unless a case says otherwise.
How often gradients were exchanged is counted.
"""

from __future__ import annotations

import inspect

import tensorflow as tf
from harness import each, exhaustive
from matrix import (
    FAMILIES,
    FEATURES,
    OPTIONS,
    check,
    keras,
    layers,
    makers,
    makers_with,
    updates_with,
)

from kungfu_tf.upstream import generations

JOBS = [{"np": 2}]

# fmt: off
NAMES = [
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "Muon",
    "Nadam", "RMSprop", "SGD", "ScheduleFreeAdamW",
]
OPTION_NAMES = [
    "clipnorm", "clipvalue", "global_clipnorm", "weight_decay", "ema", "ema at the end",
    "loss_scale_factor", "accumulation", "accumulation, clipnorm", "accumulation, ema",
]
# Neither part of another one nor in cases_optimizers.py.
ONCE = [
    "clipnorm", "weight_decay", "ema", "loss_scale_factor", "accumulation, clipnorm",
    "accumulation, ema",
]
SCHEDULES = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay",
    "PiecewiseConstantDecay", "PolynomialDecay",
]
# fmt: on


@each(name=NAMES)
@exhaustive(name=["Adafactor", "Muon", "ScheduleFreeAdamW"])
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


@each(option=OPTION_NAMES, name=["SGD", "Adam"])
@exhaustive(option=ONCE, name=["Adam"])
def case_option(option, name):
    options = OPTIONS[option]
    for make in makers_with(name, options):
        check(make, updates=updates_with(options))


@each(both=["Lion, ema", "Muon, accumulation", "Adafactor, clipnorm"])
@exhaustive(both=["Muon, accumulation"])
def case_option_of_another_optimizer(both):
    """What an option does is the base class's affair: one that is unlike the others for each."""
    name, option = both.split(", ")
    options = OPTIONS[option]
    for make in makers_with(name, options):
        check(make, updates=updates_with(options))


@each(how=["run_eagerly", "steps_per_execution"], option=["ema", "accumulation, clipnorm"])
@exhaustive(option=["accumulation, clipnorm"])
def case_option_of_fit(how, option):
    options = OPTIONS[option]
    how = {"run_eagerly": True} if how == "run_eagerly" else {"steps_per_execution": 3}
    for make in makers_with("Adam", options):
        check(make, updates=updates_with(options), **how)


@each(schedule=SCHEDULES)
@exhaustive(schedule=["CosineDecay"])
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
        self.model.optimizer.learning_rate = float(generations.native(rate)) / 2


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
@exhaustive(option=["weight_decay", "accumulation"], name=["Adam"])
def case_slices(option, name):
    options = OPTIONS.get(option, {})
    for make in makers_with(name, options):
        check(make, embedding_model, updates=updates_with(options))
