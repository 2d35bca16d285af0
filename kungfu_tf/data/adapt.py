"""Adapts preprocessing layers to the data of all peers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data.empty import check_dataset
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.upstream import generations


def adapt(layer: Any, dataset: tf.data.Dataset) -> None:
    """Adapts a preprocessing layer to the data of all peers, as `layer.adapt` would in one process.

    Each peer goes through its own part. Then the peers combine what they have counted:

    ```
    Normalization                  n = Σ nᵢ,  mean = Σ nᵢ·meanᵢ / n,
                                   variance = Σ nᵢ·(varianceᵢ + (meanᵢ − mean)²) / n
    StringLookup, IntegerLookup,   the counts of each token, and of documents
    TextVectorization
    Discretization                 the summaries of all peers, within `epsilon`
    ```

    All peers call it with layers of one kind, and have the same layer afterwards. A single process
    calls `layer.adapt`.

    Args:
        layer: One of these layers, of Keras 3 or 2.
        dataset: This peer's part, as batches, as for `layer.adapt`.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`, or `layer` not one of these layers.
        tf.errors.OpError: As any operation of `kungfu_tf.ops`.

    Example:

    ```python
    part = kf.data.shard(samples)
    normalization = keras.layers.Normalization()
    kf.data.adapt(normalization, part.map(lambda x, y: x).batch(64))
    ```
    """
    check_dataset(dataset)
    if peer.is_single_process():
        layer.adapt(dataset)
        return
    kind = _kind_of(layer)
    if kind == "Normalization":
        counter = tf.Variable(0, dtype=tf.int64, trainable=False)
        layer.adapt(_counted(dataset, counter))
        _merge_moments(layer, int(counter))
        layer.finalize_state()
    elif kind == "Discretization":
        layer.adapt(dataset)
        _merge_summaries(layer)
        layer.finalize_state()
    else:
        lookup = layer._lookup_layer if kind == "TextVectorization" else layer
        with _merging_counts(lookup):
            layer.adapt(dataset)


def _kind_of(layer: Any) -> str:
    for package in generations.packages():
        for kind in _KINDS:
            if isinstance(layer, getattr(package.module.layers, kind)):
                return kind
    raise TypeError(f"data.adapt: {type(layer).__name__} is none of {', '.join(_KINDS)}")


_KINDS = ("Normalization", "Discretization", "TextVectorization", "StringLookup", "IntegerLookup")


def _counted(dataset: tf.data.Dataset, counter: Any) -> tf.data.Dataset:
    """The dataset. It adds the number of elements of its tensors to `counter`."""

    @tf.autograph.experimental.do_not_convert
    def count(*batch: Any) -> Any:
        x = tf.nest.flatten(batch, expand_composites=True)[0]
        with tf.control_dependencies([counter.assign_add(tf.size(x, tf.int64))]):
            return tf.nest.map_structure(
                tf.identity, batch if len(batch) > 1 else batch[0], expand_composites=True
            )

    return dataset.map(count)


def _merge_moments(layer: Any, elements: int) -> None:
    """Sets mean and variance of all samples, in double precision.

    Args:
        layer: The layer, adapted to this peer's part.
        elements: How many numbers that part has.
    """
    mean, variance = np.asarray(layer.adapt_mean), np.asarray(layer.adapt_variance)
    count = elements // math.prod(mean.shape)
    parts = gather_any([np.int64(count), mean, variance], name=f"{_NAME}/moments")
    counts = np.array([float(part[0]) for part in parts])
    shares = (counts / counts.sum()).reshape([-1] + [1] * mean.ndim)
    means, variances = (np.array([part[i] for part in parts], np.float64) for i in (1, 2))
    total = (shares * means).sum(axis=0)
    layer.adapt_mean.assign(total.astype(mean.dtype))
    spread = (shares * (variances + (means - total) ** 2)).sum(axis=0)
    layer.adapt_variance.assign(spread.astype(variance.dtype))
    layer.count.assign(int(counts.sum()))


def _merge_summaries(layer: Any) -> None:
    """Sets the sorted values of all peers, each with its weight. Keras compresses them."""
    parts = gather_any([np.asarray(layer.summary, np.float32)], name=f"{_NAME}/summaries")
    merged = np.concatenate([summary for (summary,) in parts], axis=1)
    merged = merged[:, np.argsort(merged[0], kind="stable")]
    if isinstance(layer.summary, np.ndarray):  # Keras 3
        layer.summary = merged
    else:
        layer.summary.assign(merged)


@contextlib.contextmanager
def _merging_counts(layer: Any) -> Iterator[None]:
    """Within it a lookup layer makes its vocabulary from the counts of all peers."""
    finalize = layer.finalize_state

    def finalize_state() -> None:
        _merge_counts(layer)
        finalize()

    vars(layer)["finalize_state"] = finalize_state
    try:
        yield
    finally:
        del vars(layer)["finalize_state"]


def _merge_counts(layer: Any) -> None:
    """Adds up how often each token occurs, and in how many documents."""
    tables = [layer.token_counts]
    documents = 0
    if layer.output_mode == "tf_idf":
        tables.append(layer.token_document_counts)
        documents = int(layer.num_documents)
    mine = [tensor.numpy() for table in tables for tensor in table.export()]
    parts = gather_any([np.int64(documents), *mine], name=f"{_NAME}/counts")
    for i, table in enumerate(tables):
        keys = np.concatenate([part[1 + 2 * i] for part in parts])
        counts = np.concatenate([part[2 + 2 * i] for part in parts])
        tokens, places = np.unique(keys, return_inverse=True)
        sums = np.zeros(len(tokens), np.int64)
        np.add.at(sums, places.reshape(-1), counts)
        table.insert(
            tf.constant(tokens.tolist(), table.key_dtype, [len(tokens)]), tf.constant(sums)
        )
    if len(tables) > 1:
        layer.num_documents.assign(sum(int(part[0]) for part in parts))


_NAME = "data/adapt"
