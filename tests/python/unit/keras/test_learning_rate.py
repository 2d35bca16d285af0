"""What the callbacks and the scaling of learning rates refuse, and what one process gets."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.upstream import generations

keras = tf.keras
schedules = keras.optimizers.schedules
Warmup = kf.callbacks.LearningRateWarmupCallback
Schedule = kf.callbacks.LearningRateScheduleCallback

IS_KERAS_3 = any(
    p.generation == 3 and p.module.Model is keras.Model for p in generations.packages()
)
NAME = "learning_rate" if IS_KERAS_3 else "lr"

CALLBACKS = {
    "warmup": lambda **options: Warmup(0.1, **options),
    "schedule": lambda **options: Schedule(0.1, lambda epoch: 1.0, staircase=False, **options),
}


@pytest.fixture(params=CALLBACKS)
def make(request):
    return CALLBACKS[request.param]


def model_with(optimizer):
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    if optimizer is not None:
        model.compile(optimizer, "mse")
    return model


def fit(model, callback, *, has_length=True, epochs=1):
    data = tf.data.Dataset.from_tensors((np.ones((1, 1)), np.ones((1, 1)))).repeat(3)
    if not has_length:
        data = data.filter(lambda x, y: True)
    return model.fit(data, epochs=epochs, callbacks=[callback], verbose=0).history


def refused_by_fit(optimizer, callback, **options):
    with pytest.raises(ValueError, match=f"^{type(callback).__name__}: ") as caught:
        fit(model_with(optimizer), callback, **options)
    return str(caught.value)


def test_an_optimizer_with_a_schedule(make):
    optimizer = keras.optimizers.SGD(schedules.ExponentialDecay(0.1, 10, 0.5))
    text = refused_by_fit(optimizer, make())
    assert "(SGD) follows a schedule, ExponentialDecay," in text
    assert "scale_learning_rate(..., warmup_steps=...) of the schedule" in text


def test_what_scales_the_loss_of_one_with_a_schedule(make):
    scaler = keras.optimizers if IS_KERAS_3 else keras.mixed_precision
    optimizer = keras.optimizers.SGD(schedules.ExponentialDecay(0.1, 10, 0.5))
    assert "follows a schedule" in refused_by_fit(scaler.LossScaleOptimizer(optimizer), make())


if hasattr(keras.optimizers, "MultiOptimizer"):  # from Keras 3.13 on

    def test_several_optimizers_in_one(make):
        optimizers = keras.optimizers
        optimizer = optimizers.MultiOptimizer(lambda variable: optimizers.SGD(0.1))
        text = refused_by_fit(optimizer, make())
        assert "(MultiOptimizer) has a learning rate for each of its optimizers" in text


def test_several_optimizers_in_a_model(make):
    callback = make()
    model = model_with(None)
    model.one, model.other = (
        kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)) for _ in range(2)
    )
    callback.set_model(model)
    with pytest.raises(ValueError, match=r"the model has 2 optimizers\. Give each its rate"):
        callback.on_train_begin()


def test_no_optimizer(make):
    callback = make()
    callback.set_model(model_with(None))
    with pytest.raises(ValueError, match="the model has no optimizers"):
        callback.on_train_begin()


def test_an_unknown_number_of_batches(make):
    text = refused_by_fit(keras.optimizers.SGD(0.1), make(), has_length=False)
    assert "give steps_per_epoch to the callback" in text
    history = fit(model_with("sgd"), make(steps_per_epoch=3), has_length=False)
    np.testing.assert_array_equal(history[NAME], np.float32([0.1]))


def test_one_process_has_its_rate():
    model = model_with(keras.optimizers.SGD(9.0))
    history = fit(model, Warmup(0.1, warmup_epochs=2), epochs=3)
    np.testing.assert_array_equal(history[NAME], np.float32([0.1] * 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Warmup("much"), TypeError, "initial_lr must be a number, not 'much'"),
        (lambda: Warmup(-1), ValueError, "finite number and not negative, not -1"),
        (lambda: Warmup(float("nan")), ValueError, "finite number"),
        (lambda: Warmup(0.1, warmup_epochs=-1), ValueError, "warmup_epochs .* not -1"),
        (lambda: Warmup(0.1, warmup_epochs=0.5), ValueError, "whole epochs, not 0.5"),
        (lambda: Warmup(0.1, steps_per_epoch=0), ValueError, "steps_per_epoch .* not 0"),
        (lambda: Schedule(0.1, None), TypeError, "multiplier must be a number, not None"),
        (lambda: Schedule(0.1, 1, start_epoch=3, end_epoch=2), ValueError, "end_epoch 2 lies"),
        (lambda: kf.callbacks.scale_learning_rate("x"), TypeError, "LearningRateSchedule,.*'x'"),
        (
            lambda: kf.callbacks.scale_learning_rate(0.1, warmup_steps=-1),
            ValueError,
            "warmup_steps must be a number of steps, not -1",
        ),
    ],
)
def test_arguments_are_checked(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_multiplier_that_returns_nothing():
    callback = Schedule(0.1, lambda epoch: None)
    with pytest.raises(TypeError, match=r"multiplier\(0\) must be a number, not None"):
        fit(model_with("sgd"), callback)


def test_a_schedule_is_scaled_once():
    scaled = kf.callbacks.scale_learning_rate(schedules.CosineDecay(0.1, 10))
    with pytest.raises(ValueError, match="this CosineDecay is scaled already"):
        kf.callbacks.scale_learning_rate(scaled)


def test_the_given_schedule_stays_as_it_is():
    plain = schedules.CosineDecay(0.1, 10)
    scaled = kf.callbacks.scale_learning_rate(plain, warmup_steps=4)
    assert type(plain) is schedules.CosineDecay
    assert float(scaled(3)) == float(plain(3))  # of one process


def test_a_saved_model_has_the_plain_schedule(tmp_path):
    rate = kf.callbacks.scale_learning_rate(schedules.ExponentialDecay(0.1, 10, 0.5))
    model = model_with(keras.optimizers.SGD(rate))
    fit(model, keras.callbacks.Callback())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer._learning_rate) is schedules.ExponentialDecay
