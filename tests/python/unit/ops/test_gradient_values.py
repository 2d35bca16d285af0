from __future__ import annotations

import numpy as np
import tensorflow as tf

from kungfu_tf.ops.gradient_values import unique_rows, values_of, with_values


def rows() -> tf.IndexedSlices:
    values = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    return tf.IndexedSlices(values, tf.constant([2, 0, 2]), tf.constant([4, 2]))


def test_values_of_dense_and_sparse_gradients_are_replaced_alike() -> None:
    for gradient in (tf.constant([[1.0], [2.0]]), rows()):
        doubled = with_values(gradient, 2 * values_of(gradient))
        np.testing.assert_array_equal(
            tf.convert_to_tensor(doubled), 2 * tf.convert_to_tensor(gradient).numpy()
        )
    assert with_values(rows(), values_of(rows())).indices.numpy().tolist() == [2, 0, 2]


def test_unique_rows_add_up_those_of_one_index() -> None:
    unique = unique_rows(rows())
    assert unique.indices.numpy().tolist() == [2, 0]
    assert unique.values.numpy().tolist() == [[6.0, 8.0], [3.0, 4.0]]
    assert unique.dense_shape.numpy().tolist() == [4, 2]
