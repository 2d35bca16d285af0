"""Many tensors as one vector, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops import kernels


@kernels.operation
def fuse(values: Sequence[Any], *, name: str | None = None) -> Any:
    """Joins the elements of tensors into one vector. Differentiable; nothing is sent.

    Args:
        values: At least one tensor, all of one dtype, of any shapes.
        name: The name of the graph's operation.

    Returns:
        A vector of that dtype, [number of all elements].

    Raises:
        InvalidArgumentError: If there is no tensor, or they have different dtypes.

    Example:

    ```python
    vector = kf.ops.fuse(variables)
    variables = kf.ops.defuse(vector, [v.shape for v in variables])
    ```
    """
    parts = [tf.convert_to_tensor(value) for value in values]
    dtypes = sorted({part.dtype.base_dtype.name for part in parts})
    if len(dtypes) != 1:
        raise errors.InvalidArgumentError(
            f"fuse: needs tensors of one dtype, and there are {', '.join(dtypes) or 'none'}"
        )
    return tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0, name=name)


@kernels.operation
def defuse(tensor: Any, shapes: Sequence[Any], *, name: str | None = None) -> list[Any]:
    """Cuts a vector into tensors, the inverse of `fuse`. Differentiable.

    Args:
        tensor: A vector.
        shapes: Shapes, or integer vectors; together they have as many elements as the vector.
        name: The name of the graph's operation.

    Returns:
        Tensors of these shapes and the vector's dtype.

    Raises:
        ValueError: If a shape is not fully known; or if the numbers of elements differ, and that
            is known while the graph is built.
        tf.errors.InvalidArgumentError: If they differ, and that is only known at run time.
    """
    dims = [_dims(shape) for shape in shapes]
    parts = tf.split(tensor, [tf.reduce_prod(each) for each in dims], name=name)
    return [tf.reshape(part, each) for part, each in zip(parts, dims, strict=True)]


def _dims(shape: Any) -> Any:
    if tf.is_tensor(shape):
        return tf.cast(shape, tf.int64)
    return tf.constant(tf.TensorShape(shape).as_list(), dtype=tf.int64)
