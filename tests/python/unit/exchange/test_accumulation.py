"""What several steps add up, if some of them have no gradient of a variable."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf.exchange.accumulation import Accumulation

Updates = list[list[float]]


def step_of(accumulation: Accumulation, variables: list[tf.Variable], updates: Updates) -> object:
    """A step with these gradients, which notes each update."""

    def step(*gradients: tf.Tensor | None) -> None:
        accumulation.add(gradients, variables)

        def note(*means: tf.Tensor) -> None:
            updates.append([float(mean[0]) for mean in means])

        def update() -> None:
            means = [m for m in accumulation.gradients(variables) if m is not None]
            tf.py_function(note, means, [])

        accumulation.then(update, lambda: None)

    return step


def gradient(value: float | None) -> tf.Tensor | None:
    return None if value is None else tf.constant([value])


@pytest.mark.parametrize("first", [2.0, None])
@pytest.mark.parametrize("is_function", [False, True])
def test_a_step_without_a_gradient_adds_nothing(is_function: bool, first: float | None) -> None:
    updates: Updates = []
    variables = [tf.Variable([1.0]), tf.Variable([2.0])]
    step = step_of(Accumulation(2), variables, updates)
    call = tf.function(step, autograph=False) if is_function else step
    for value in (first, 4.0, None, 6.0, 8.0, None, None, None):
        call(gradient(1.0), gradient(value))
    expected = [[1, ((first or 0) + 4) / 2], [1, 3], [1, 4], [1, 0]]
    if is_function and first is None:
        expected[2:] = [[1], [1]]  # the step that ends these was traced when there was none
    assert [len(u) for u in updates] == [len(e) for e in expected]
    for found, right in zip(updates, expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_a_variable_without_any_gradient_gets_none() -> None:
    accumulation = Accumulation(1)
    variables = [tf.Variable([1.0]), tf.Variable([2.0])]
    accumulation.add([tf.constant([1.0]), None], variables)
    mean, none = accumulation.gradients(variables)
    assert float(mean[0]) == 1 and none is None


def test_two_functions_leave_nothing_to_later_updates() -> None:
    updates: Updates = []
    accumulation, variables = Accumulation(2), [tf.Variable([1.0])]
    step = step_of(accumulation, variables, updates)
    without, with_one = (tf.function(step, autograph=False) for _ in range(2))
    for call, value in ((without, None), (with_one, 2.0), (with_one, 4.0), (with_one, 6.0)):
        call(gradient(value))
    assert updates == [[1.0], [5.0]]
