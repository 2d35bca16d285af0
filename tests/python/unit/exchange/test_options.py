"""Options that only some generations of Keras have."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.optimizers import Algorithm, SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

keras = tf.keras
KERAS_3 = any(p.generation == 3 and p.module.Model is keras.Model for p in generations.packages())


class Count(Algorithm):
    """Counts the gradients it has been given, and returns them."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def gradients(self, gradients, variables, *, step=None):
        self.given.append(sum(g is not None for g in gradients))
        return list(gradients)


class Sums(Count):
    """Adds up the gradients of the steps of an update."""

    sums_steps = True


def apply(optimizer: Any, *gradients: float) -> Any:
    variable = keras.Variable([1.0]) if KERAS_3 else tf.Variable([1.0])
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant([gradient]), variable)])
    return generations.native(variable).numpy()


def auto_jit_compile(optimizer: Any) -> bool:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile(optimizer, "mse", jit_compile="auto")
    return bool(model.jit_compile)


if KERAS_3:  # These are not skipped elsewhere: there is nothing to test.

    @pytest.mark.parametrize("is_scaled", [False, True])
    @pytest.mark.parametrize("is_copied", [False, True])
    @pytest.mark.parametrize(("sums", "right"), [(False, -1.0), (True, -3.0)])
    def test_steps_of_an_update_are_averaged_or_summed(is_scaled, is_copied, sums, right) -> None:
        optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
        if is_scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1.0)
        optimizer = wrap(optimizer, Sums if sums else Count)
        if is_copied:
            optimizer = copy.deepcopy(optimizer)
        assert apply(optimizer, 1.0, 3.0) == right

    @pytest.fixture
    def gpu(monkeypatch):
        """A GPU is visible."""
        devices = tf.config.list_physical_devices()
        fake = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [*devices, fake])

    @pytest.fixture
    def company(monkeypatch):
        """There are other peers."""
        monkeypatch.setattr(peer, "is_single_process", lambda: False)

    def test_auto_compiles_nothing_among_several(gpu, company):
        """Any step may exchange something: a metric, say, or what an optimizer of its own does."""
        assert not auto_jit_compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)))
        assert not auto_jit_compile(keras.optimizers.SGD(0.1))

    def test_alone_auto_is_what_it_was(gpu):
        assert auto_jit_compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)))

    def made_to_compile(model: Any) -> bool:
        """Whether the train step is compiled, in the end."""
        model.make_train_function()
        return bool(model.jit_compile)

    def dense_model() -> Any:
        return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])

    def test_auto_is_asked_again_when_the_step_is_made(gpu, monkeypatch):
        SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
        model = dense_model()
        model.compile("sgd", "mse")
        assert model.jit_compile
        monkeypatch.setattr(peer, "is_single_process", lambda: False)
        assert not made_to_compile(model)
        model.compile("sgd", "mse", jit_compile=True)
        assert made_to_compile(model)

    def test_what_auto_came_to_is_no_order_when_it_is_loaded(gpu, monkeypatch, tmp_path):
        model = dense_model()
        model.compile("sgd", "mse")
        assert model.jit_compile
        model.save(tmp_path / "model.keras")
        monkeypatch.setattr(peer, "is_single_process", lambda: False)
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert loaded.jit_compile
        assert not made_to_compile(loaded)

    def test_models_that_are_not_compiled_still_predict(company):
        SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        assert model.predict(np.ones((3, 2)), verbose=0).shape == (3, 1)

    def test_a_yes_is_not_turned_into_a_no(company):
        """It fails when the step is traced, with the remedy."""
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), jit_compile=True)
        assert model.jit_compile

    def test_a_yes_to_the_compile_that_was_looked_up_before_its_argument_was_wrapped(company):
        """`model.compile(SynchronousSGDOptimizer(...), jit_compile=True)`, the program's first."""
        optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
        keras_compile = keras.Model.compile.kungfu_replaced
        for asked in (True, "auto"):
            model = dense_model()
            keras_compile(model, optimizer, jit_compile=asked)
            assert made_to_compile(model) == (asked is True)

    @pytest.mark.parametrize("mode", ["eager", "function"])
    def test_accumulated_gradients_are_given_once_per_update(mode):
        optimizer = wrap(keras.optimizers.SGD(1.0, gradient_accumulation_steps=3), Count)
        variable = keras.Variable([1.0])
        step = lambda g: optimizer.apply_gradients([(g, variable)])  # noqa: E731
        optimizer.build([variable])
        step = tf.function(step) if mode == "function" else step
        for gradient in (1.0, 2.0, 6.0, 3.0):
            step(tf.constant([gradient]))
        np.testing.assert_array_equal(variable, [-2.0])
        # Before 3.5 Keras clips each gradient, and so each is exchanged; a function is traced once.
        [package] = [p for p in generations.packages() if p.module.Model is keras.Model]
        each = mode == "eager" and package.version < (3, 5)
        assert optimizer.kungfu_algorithm.given == ([1, 1, 1, 1] if each else [1])

    def test_new_values_are_not_gradients():
        """What quantised layers give as the gradient of a scale is its next value."""
        optimizer = wrap(keras.optimizers.SGD(1.0), Count)
        weight, scale = keras.Variable([1.0]), keras.Variable([1.0])
        scale.overwrite_with_gradient = True
        optimizer.apply_gradients([(tf.constant([5.0]), scale), (tf.constant([2.0]), weight)])
        np.testing.assert_array_equal(scale, [5.0])
        np.testing.assert_array_equal(weight, [-1.0])
        assert optimizer.kungfu_algorithm.given == [1]

    if hasattr(keras.optimizers, "MultiOptimizer"):  # from Keras 3.13 on

        def test_of_several_optimizers_the_outermost_is_wrapped():
            optimizer = keras.optimizers.MultiOptimizer(
                keras.optimizers.OptimizerMap(keras.optimizers.SGD(1.0))
            )
            assert apply(wrap(optimizer, Count), 2.0, 3.0) == -4.0
            assert optimizer.kungfu_algorithm.given == [1, 1]

    @pytest.mark.parametrize("outside", [True, False])
    def test_loss_scale_looks_at_what_was_exchanged(outside):
        plain = keras.optimizers.SGD(1.0)
        if outside:
            optimizer = wrap(keras.optimizers.LossScaleOptimizer(plain), Count)
        else:
            optimizer = keras.optimizers.LossScaleOptimizer(wrap(plain, Count))
        [algorithm] = generations.algorithms_of(optimizer)
        scale = optimizer.initial_scale
        assert apply(optimizer, 1.0 * scale, np.inf, 1.0 * scale / 2) == -1.0
        assert algorithm.given == [1, 1, 1]

    def test_loss_scale_in_fit():
        """`compile` wraps ours in a LossScaleOptimizer."""
        previous = keras.config.dtype_policy()
        keras.config.set_dtype_policy("mixed_float16")
        try:
            model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        finally:
            keras.config.set_dtype_policy(previous)
        optimizer = wrap(keras.optimizers.SGD(0.1), Count)
        model.compile(optimizer, "mse", run_eagerly=True)
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, epochs=3, verbose=0)
        assert (
            0 < int(generations.native(optimizer.iterations)) <= 6
        )  # it begins with too large a scale
        assert optimizer.kungfu_algorithm.given == [2] * 6

else:

    @pytest.mark.parametrize("outside", [True, False])
    @pytest.mark.parametrize("legacy", [True, False])
    def test_loss_scale_looks_at_what_was_exchanged(outside, legacy):
        family = keras.optimizers.legacy if legacy else keras.optimizers
        plain = family.SGD(1.0)
        if outside:
            optimizer = wrap(keras.mixed_precision.LossScaleOptimizer(plain), Count)
        else:
            optimizer = keras.mixed_precision.LossScaleOptimizer(wrap(plain, Count))
        [algorithm] = generations.algorithms_of(optimizer)
        assert apply(optimizer, 1.0, np.inf, 1.0) == -1.0
        assert algorithm.given == [1, 1, 1]
