"""Learning rates: what they are at every step, and that the weights moved by just that much."""

from __future__ import annotations

import warnings

import numpy as np
import tensorflow as tf
import training
from harness import each

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

STEPS = 4  # of an epoch
EPOCHS = 5
LR = 0.25

keras = tf.keras
callbacks = kf.callbacks


class Rates(keras.callbacks.Callback):
    """The rate of every step."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_begin(self, batch, logs=None):
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        is_legacy = hasattr(optimizer, "_hyper")
        rate = optimizer._hyper["learning_rate"] if is_legacy else optimizer._learning_rate
        self.seen.append(float(np.asarray(rate(optimizer.iterations) if callable(rate) else rate)))


def sgd_families():
    """SGD of every kind that this Keras has, plain and with a loss scale."""
    families = [keras.optimizers.SGD]
    if training.is_keras_3():
        scaled = keras.optimizers.LossScaleOptimizer
    else:
        families.append(keras.optimizers.legacy.SGD)
        scaled = keras.mixed_precision.LossScaleOptimizer
    return [
        *families,
        *[lambda rate, family=family: scaled(family(rate)) for family in families],
    ]


def fit(optimizer, chosen, **options):
    """Trains a weight whose gradient is 1 in every step: the history, and the rate of every step.

    Asserts that the weight has moved by the sum of the rates.
    """
    layers = keras.layers
    weight = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([layers.Input((1,)), weight])
    model.compile(SynchronousSGDOptimizer(optimizer), lambda y, out: tf.reduce_mean(out))
    count = 2 * STEPS * kf.size()
    samples = tf.data.Dataset.from_tensor_slices((tf.ones((count, 1)), tf.range(count)))
    dataset = kf.data.shard(samples).batch(2)
    rates = Rates()
    equal = callbacks.BroadcastGlobalVariablesCallback()
    history = model.fit(
        dataset, epochs=EPOCHS, verbose=0, callbacks=[equal, *chosen, rates], **options
    ).history
    np.testing.assert_allclose(np.asarray(weight.kernel)[0, 0], -np.sum(rates.seen), rtol=1e-5)
    return history, rates.seen


def logged(history):
    return history["learning_rate" if training.is_keras_3() else "lr"]


def assert_rates(history, seen, expected):
    """`expected`: by step; as float32, which the optimizer keeps it as, bit for bit."""
    np.testing.assert_array_equal(np.float32(seen), np.float32(expected))
    last = np.float32(expected)[STEPS - 1 :: STEPS]
    np.testing.assert_array_equal(np.float32(logged(history)), last)


def factors(warmup_steps):
    """By what the rate of each step is multiplied."""
    steps = np.arange(STEPS * EPOCHS) if warmup_steps else np.full(STEPS * EPOCHS, np.inf)
    return 1 + (kf.size() - 1) * np.minimum(steps / max(warmup_steps, 1), 1)


def warmup(epochs):
    """The rate of every step."""
    return LR * factors(STEPS * epochs)


def case_warmup():
    for make in sgd_families():
        chosen = [callbacks.LearningRateWarmupCallback(LR, warmup_epochs=3)]
        assert_rates(*fit(make(9.0), chosen), warmup(3))


def case_a_rate_that_may_have_been_scaled_before():
    """As Horovod's callback of this name takes it."""
    chosen = [callbacks.LearningRateWarmupCallback(LR, warmup_epochs=3)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rate in (callbacks.scale_learning_rate(LR), LR):
            assert_rates(*fit(keras.optimizers.SGD(rate), chosen), warmup(3))
    said = [str(w.message) for w in caught if "initial_lr" in str(w.message)]
    assert len(said) == 1
    assert "has the learning rate 0.25, which is initial_lr, too, and will get 0.5" in said[0]


def case_without_warmup_the_rate_is_scaled_at_once():
    chosen = [callbacks.LearningRateWarmupCallback(LR, warmup_epochs=0)]
    assert_rates(*fit(keras.optimizers.SGD(9.0), chosen), warmup(0))


def case_after_the_warmup_the_rate_is_left_alone():
    change = keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr / 4 if epoch == 3 else lr)
    chosen = [callbacks.LearningRateWarmupCallback(LR, warmup_epochs=2), change]
    expected = warmup(2)
    expected[3 * STEPS :] /= 4
    assert_rates(*fit(keras.optimizers.SGD(9.0), chosen), expected)


def case_a_program_that_starts_later():
    chosen = [callbacks.LearningRateWarmupCallback(LR, warmup_epochs=3)]
    for start in (1, 3, 4):
        rate = callbacks.scale_learning_rate(LR)
        history, seen = fit(keras.optimizers.SGD(rate), chosen, initial_epoch=start)
        assert_rates(history, seen, warmup(3)[start * STEPS :])


def case_schedule_by_epochs():
    for make in sgd_families():
        chosen = [
            callbacks.LearningRateScheduleCallback(LR, 3, end_epoch=1),
            callbacks.LearningRateScheduleCallback(
                LR, lambda epoch: 0.5**epoch, start_epoch=2, end_epoch=4
            ),
        ]
        expected = np.repeat(LR * np.array([3, 3, 0.5**2, 0.5**3, 0.5**3]), STEPS)
        assert_rates(*fit(make(9.0), chosen), expected)


def case_schedule_by_batches():
    smooth = callbacks.LearningRateScheduleCallback(
        LR, lambda epoch: 1 / (1 + epoch), start_epoch=1, end_epoch=4, staircase=False
    )
    epochs = np.clip(np.arange(STEPS * EPOCHS) / STEPS, None, 4 - 1 / STEPS)
    expected = np.where(epochs < 1, 9.0, LR / (1 + epochs))
    assert_rates(*fit(keras.optimizers.SGD(9.0), [smooth]), expected)


def case_warmup_then_schedule():
    rate = callbacks.scale_learning_rate(LR)
    chosen = [
        callbacks.LearningRateWarmupCallback(LR, warmup_epochs=2),
        callbacks.LearningRateScheduleCallback(rate, lambda epoch: 0.1**epoch, start_epoch=2),
    ]
    expected = warmup(2)
    expected[2 * STEPS :] = np.repeat(rate * 0.1 ** np.arange(2, EPOCHS), STEPS)
    assert_rates(*fit(keras.optimizers.SGD(rate), chosen), expected)


def case_scaled_numbers():
    assert callbacks.scale_learning_rate(0.1) == 0.1 * kf.size()
    assert callbacks.scale_learning_rate(np.float64(0.5)) == 0.5 * kf.size()


@each(warmup_steps=[0, 7])
def case_scaled_schedules(warmup_steps):
    """Keras saves of them what it saves of the plain one."""
    schedules = keras.optimizers.schedules
    for plain in (
        schedules.ExponentialDecay(LR, 5, 0.5),
        schedules.PiecewiseConstantDecay([6, 9], [LR, LR / 2, LR / 8]),
        schedules.CosineDecay(LR, STEPS * EPOCHS),
    ):
        scaled = callbacks.scale_learning_rate(plain, warmup_steps=warmup_steps)
        assert isinstance(scaled, type(plain))
        assert schedules.serialize(scaled) == schedules.serialize(plain)
        for step, factor in enumerate(factors(warmup_steps)):
            expected = float(plain(step)) * factor
            np.testing.assert_allclose(float(scaled(step)), expected, rtol=1e-6)


def case_fit_with_a_scaled_schedule():
    decay = 0.5 ** (np.arange(STEPS * EPOCHS) / 5)
    for make in sgd_families():
        plain = keras.optimizers.schedules.ExponentialDecay(LR, 5, 0.5)
        _, seen = fit(make(callbacks.scale_learning_rate(plain, warmup_steps=7)), [])
        np.testing.assert_allclose(seen, LR * decay * factors(7), rtol=1e-6)


def case_fit_with_a_number_that_warms_up():
    rate = callbacks.scale_learning_rate(LR, warmup_steps=7)
    _, seen = fit(keras.optimizers.SGD(rate), [])
    np.testing.assert_allclose(seen, LR * factors(7), rtol=1e-6)
