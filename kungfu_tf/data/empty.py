"""Batches without samples, for a peer that has run out of data.

The peer continues to train with weight 0, so that its steps issue the same collectives as those of
the others. In place of an empty batch it trains on a stand-in of one sample, because many programs
do not take empty ones: convolutions on a CPU return wrong shapes, and `reshape` cannot infer a
size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.util.structure import NoneTensorSpec
from tensorflow.python.util import nest

from kungfu_tf.upstream import generations


def check_dataset(dataset: Any) -> None:
    """Raises a TypeError unless it is a `tf.data.Dataset`."""
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"not a tf.data.Dataset: {type(dataset).__module__}.{type(dataset).__name__}. "
            "Of arrays make one with tf.data.Dataset.from_tensor_slices"
        )


def empty_batch(element_spec: Any) -> Any:
    """A batch of 0 samples.

    Args:
        element_spec: The spec of a dataset of batches: dense, ragged or sparse tensors, optionals
            or None, in any nesting.

    Returns:
        A batch of the same structure. The first dimension of each tensor is 0, and other unknown
        dimensions are 1.

    Raises:
        TypeError: If a component is something else.
        ValueError: If a component has no first dimension, or an unknown number of dimensions.
    """
    named = nest.flatten_with_joined_string_paths(element_spec)
    return tf.nest.pack_sequence_as(element_spec, [_empty(spec, name) for name, spec in named])


def empty_batches(element_spec: Any) -> tf.data.Dataset:
    """An endless dataset of empty batches.

    Every peer makes it, even if it needs none. So a batch that cannot be empty is an error on all
    peers.
    """
    return tf.data.Dataset.from_tensors(empty_batch(element_spec)).repeat()


def allows_any_size(element_spec: Any) -> bool:
    """Whether these are batches of dense tensors with any number of samples, also none."""
    specs = tf.nest.flatten(element_spec)
    dense = [spec for spec in specs if isinstance(spec, tf.TensorSpec) and spec.shape.rank]
    return len(dense) == len(specs) and all(spec.shape[0] is None for spec in dense)


def like_the_last(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, whose empty batches get the dimensions of the last batch before them.

    It helps if the element spec lacks dimensions of dense tensors, as for generators of Keras 2.
    """
    specs = tf.nest.flatten(dataset.element_spec)
    unknown = [
        i
        for i, s in enumerate(specs)
        if isinstance(s, tf.TensorSpec) and None in s.shape[1:].as_list()
    ]
    if not unknown:
        return dataset

    def step(last: Any, batch: Any) -> Any:
        parts = tf.nest.flatten(batch)
        is_empty = tf.equal(tf.shape(parts[unknown[0]])[0], 0)
        shapes = []
        for i, shape in zip(unknown, last, strict=True):
            mine = tf.shape(parts[i])
            shapes.append(tf.where(is_empty, shape, mine))
            wanted = tf.where(is_empty, tf.concat([[0], shape[1:]], 0), mine)
            parts[i] = tf.ensure_shape(tf.reshape(parts[i], wanted), specs[i].shape)
        return tuple(shapes), tf.nest.pack_sequence_as(dataset.element_spec, parts)

    def unseen(spec: Any) -> Any:
        return np.array([0, *(1 if d is None else d for d in spec.shape[1:].as_list())], np.int32)

    return dataset.scan(tuple(unseen(specs[i]) for i in unknown), step)


def _empty(spec: Any, name: str) -> Any:
    if isinstance(spec, NoneTensorSpec):
        return None
    if isinstance(spec, tf.OptionalSpec):
        # Keras packs None as an optional without a value.
        return tf.experimental.Optional.empty(spec._element_spec)
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros(_empty_shape(spec.shape, name), spec.dtype)
    if isinstance(spec, tf.RaggedTensorSpec):
        return _empty_ragged(spec, name)
    if isinstance(spec, tf.SparseTensorSpec):
        shape = _empty_shape(spec.shape, name)
        indices = tf.zeros([0, len(shape)], tf.int64)
        return tf.SparseTensor(indices, tf.zeros([0], spec.dtype), shape)
    raise TypeError(f"there is no empty batch of {_label(name)}, which is a {spec}")


def _empty_ragged(spec: Any, name: str) -> Any:
    shape = _empty_shape(spec.shape, name)
    values = tf.zeros([0, *shape[spec.ragged_rank + 1 :]], spec.dtype)
    for _ in range(spec.ragged_rank):
        splits = tf.zeros([1], spec.row_splits_dtype)
        values = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    return values


def _empty_shape(shape: tf.TensorShape, name: str) -> list[int]:
    if shape.rank is None:
        raise ValueError(
            f"there is no empty batch of {_label(name)}: the number of its dimensions is unknown. "
            "Give the dataset's source an output_signature with shapes"
        )
    if shape.rank == 0:
        raise ValueError(
            f"there is no empty batch of {_label(name)}: it is a scalar and has no first dimension"
        )
    return [0, *(1 if size is None else size for size in shape.as_list()[1:])]


def _label(name: str) -> str:
    return f"component '{name}' of the dataset's elements" if name else "the dataset's elements"


def samples_of(batch: Any) -> Any:
    """How many samples a batch has: the first dimension of x's first tensor, an int64 scalar.

    Args:
        batch: The argument of a train step: x, (x, y) or (x, y, sample_weight), each in any
            nesting.
    """
    x = next(part for part in tf.nest.flatten(batch) if part is not None)
    if isinstance(x, tf.RaggedTensor):
        return x.nrows(out_type=tf.int64)
    if isinstance(x, tf.SparseTensor):
        return x.dense_shape[0]
    return tf.shape(x, out_type=tf.int64)[0]


def stand_in(batch: Any, samples: Any) -> Any:
    """The batch, or in place of an empty one a batch of one sample that is all zeros.

    Args:
        batch: Dense, ragged or sparse tensors, optionals or None, in any nesting.
        samples: How many samples the batch has, from `samples_of`.
    """
    parts = tf.nest.flatten(batch)
    count = tf.get_static_value(samples)
    given = [i for i, p in enumerate(parts) if p is not None and not _is_optional(p)]
    if count or not given:
        return batch
    mine = [_as_tensor(parts[i]) for i in given]

    def zeros() -> list[Any]:
        return [_zeros_like_a_sample(part) for part in mine]

    filled = zeros() if count == 0 else tf.cond(tf.equal(samples, 0), zeros, lambda: mine)
    for i, part in zip(given, filled, strict=True):
        parts[i] = part
    return tf.nest.pack_sequence_as(batch, parts)


def _is_optional(part: Any) -> bool:
    return isinstance(part, tf.experimental.Optional)


def _as_tensor(part: Any) -> Any:
    is_composite = isinstance(part, (tf.RaggedTensor, tf.SparseTensor))
    return part if is_composite else tf.convert_to_tensor(part)


def _zeros_like_a_sample(part: Any) -> Any:
    if isinstance(part, tf.RaggedTensor):
        values = tf.zeros(_with_one_row(tf.shape(part.flat_values)), part.dtype)
        for splits in part.nested_row_splits:
            values = tf.RaggedTensor.from_row_splits(values, tf.constant([0, 1], splits.dtype))
        return values
    if isinstance(part, tf.SparseTensor):
        return tf.SparseTensor(
            tf.zeros_like(part.indices), tf.zeros_like(part.values), _with_one_row(part.dense_shape)
        )
    return tf.zeros(_with_one_row(tf.shape(part)), part.dtype)


def _with_one_row(shape: Any) -> Any:
    return tf.concat([tf.ones([1], shape.dtype), shape[1:]], axis=0)


def step_on(model: Any, samples: Any, step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Runs a train step so that the stand-in for an empty batch leaves no trace.

    It restores moving statistics, metrics and other variables of this peer. It does not restore
    variables that are the same on all peers: those with the attribute `_kungfu_equal`, or of a
    layer with it.

    Args:
        model: A Keras model with weights.
        samples: How many samples the batch has, an integer scalar.
        step: Calls `model.train_step` with the batch, or with its stand-in.

    Returns:
        The logs of the step. For an empty batch their metrics are as before.
    """
    if tf.get_static_value(samples):
        return step()
    before = {id(v): (v, v.read_value()) for v in _own_variables(model)}
    logs = step()

    def put_back() -> dict[str, Any]:
        for variable, value in before.values():
            variable.assign(value)
        for metric in model.metrics:
            # The first step creates variables of metrics.
            if any(id(generations.native(v)) not in before for v in metric.variables):
                metric.reset_state()
        metrics = model.get_metrics_result()
        return {name: _as(metrics.get(name, log), log) for name, log in logs.items()}

    result: dict[str, Any] = tf.cond(tf.equal(samples, 0), put_back, lambda: logs)
    return result


def _own_variables(model: Any) -> Iterator[Any]:
    for metric in model.metrics:
        yield from map(generations.native, metric.variables)
    yield from (variable for _, variable in generations.moved_variables(model))


def _as(value: Any, like: Any) -> Any:
    """The value, with the type of `like`: eager steps of old versions of Keras return floats."""
    return float(value) if isinstance(like, float) else tf.cast(value, like.dtype)
