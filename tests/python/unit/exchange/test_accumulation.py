"""What several steps add up, if some of them have no gradient of a variable."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf.exchange.accumulation import Accumulation


@pytest.mark.parametrize("is_function", [False, True])
def test_a_step_without_a_gradient_adds_nothing(is_function: bool) -> None:
    accumulation = Accumulation(2)
    both, one = tf.Variable([1.0]), tf.Variable([2.0])
    updates: list[list[float]] = []

    def step(of_both: tf.Tensor, of_one: tf.Tensor | None) -> None:
        accumulation.add([of_both, of_one], [both, one])

        def update() -> None:
            means = accumulation.gradients([both, one])
            tf.py_function(lambda *values: updates.append([float(v[0]) for v in values]), means, [])

        accumulation.then(update, lambda: None)

    call = tf.function(step, autograph=False) if is_function else step
    ones = tf.constant([1.0])
    for of_one in (2 * ones, 4 * ones, None, 6 * ones, 8 * ones, None):
        call(ones, of_one)
    np.testing.assert_array_equal(updates, [[1, 3], [1, 3], [1, 4]])
