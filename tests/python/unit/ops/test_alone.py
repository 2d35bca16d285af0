"""Operations of neighbours in a process that pretends to be alone, as in one that is."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import context


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("weight", [0.5, 0.1])
def test_own_weight(dtype, weight):
    x = tf.cast([1.0, 3.0, 1 / 3], dtype)

    def weighted():
        return kf.ops.neighbor_all_reduce(x, self_weight=weight, src_weights={})

    expected = weighted()
    with context.within(is_alone=True):
        found = weighted()
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    np.testing.assert_allclose(tf.cast(found / x, "complex128"), [weight] * 3, rtol=1e-2)
