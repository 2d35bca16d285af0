"""Batch normalization by the samples of all peers.

Keras' own layer asks one method for the moments of its batch. A subclass gives it those of all
peers' batches. Everything else stays Keras': moving statistics, masks, renorm, precision, freezing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.keras.layers.moments import moments
from kungfu_tf.upstream import generations

Model = TypeVar("Model")


def SyncBatchNormalization(**arguments: Any) -> Any:  # noqa: N802 (the name that such layers have)
    """`tf.keras.layers.BatchNormalization` by the samples of all peers.

    ```
    mean, variance ← of the batches of all peers together
    y ← gamma · (x - mean) / √(variance + epsilon) + beta
    ```

    N peers × batch B train like one process × batch N·B, moving statistics included, which are
    bitwise equal on all peers. The plain layer normalises each peer's batch separately, which is as
    good if that is large.

    Costs one all-reduce of a few numbers per channel in the forward pass and one in the backward
    pass, which wait for each other: N layers make 2·N waits per step. Batches may have different
    sizes, and be empty: samples count alike. In inference, and frozen (`trainable = False`), the
    layer exchanges nothing.

    A saved model holds a plain BatchNormalization: the file opens where kungfu_tf is not installed.
    A model that was loaded, or came from `keras.applications`, is synchronised by `synchronize`,
    which also serves other Keras packages than `tf.keras`. In a process that is alone the layer is
    Keras'.

    Args:
        **arguments: Those of Keras' layer.

    Returns:
        The layer.

    Raises:
        ValueError: If parts of the batch are to be normalised separately (`virtual_batch_size`).

    Example:

    ```python
    model = keras.Sequential([layers.Conv2D(32, 3), kf.layers.SyncBatchNormalization(axis=-1)])
    ```
    """
    return synchronize(tf.keras.layers.BatchNormalization(**arguments))


def synchronize(model: Model) -> Model:
    """Makes every BatchNormalization in a model one by the samples of all peers, in place.

    The layers keep their weights. Call it on every peer. Keras' traces of the model are dropped; a
    `tf.function` of your own that has called it stays as it was.

    Args:
        model: A model or layer of Keras 3, Keras 2 or tf-keras.

    Returns:
        The same object.

    Raises:
        TypeError: If it is neither.
        ValueError: If a layer normalises parts of a batch by themselves (`virtual_batch_size`).

    Example:

    ```python
    model = kf.layers.synchronize(keras.applications.ResNet50(weights=None))
    ```
    """
    if not any(
        isinstance(model, package.module.layers.Layer) for package in generations.packages()
    ):
        raise TypeError(
            f"not a model or layer of Keras: {model!r} "
            f"({type(model).__module__}.{type(model).__name__})"
        )
    root: Any = model
    for layer in [] if peer.is_single_process() else root._flatten_layers():
        _synchronize_layer(layer)
    for made in ("train_function", "test_function", "predict_function"):
        if getattr(model, made, None) is not None:
            setattr(model, made, None)
    return model


def _synchronize_layer(layer: Any) -> None:
    if isinstance(layer, _Synchronized):
        return
    for package in generations.packages():
        if isinstance(layer, package.module.layers.BatchNormalization):
            if getattr(layer, "virtual_batch_size", None) is not None:
                raise ValueError(
                    f"the layer '{layer.name}' normalises parts of {layer.virtual_batch_size} "
                    "samples by themselves (virtual_batch_size): there is nothing to synchronise"
                )
            base: Any = type(layer)
            object.__setattr__(layer, "__class__", _subclass(package, base))


@functools.cache
def _subclass(package: generations.Package, base: Any) -> type:
    mixin = _Keras3 if package.generation == 3 else _Keras2
    return generations.subclass(mixin, base, kungfu_package=package)


class _Synchronized(generations.Base):
    """Mixed in, before Keras' class, into that of a synchronised layer."""

    kungfu_package: generations.Package

    _kungfu_equal = True  # its moving statistics are the same on all peers


class _Keras3(_Synchronized):
    @property
    def supports_jit(self) -> bool:
        """Answers `jit_compile="auto"`: XLA has no collectives."""
        return False

    @supports_jit.setter
    def supports_jit(self, value: bool) -> None:
        """Keras' constructor says True."""

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        epsilon = 0.0
        if mask is not None:
            mask = _like(inputs, mask)
            epsilon = self.kungfu_package.module.backend.epsilon()
        mean, variance = moments(inputs, self._reduction_axes, mask=mask, epsilon=epsilon)
        axes = self._reduction_axes
        return tf.squeeze(mean, axes), tf.squeeze(variance, axes)


class _Keras2(_Synchronized):
    @property
    def fused(self) -> bool:
        """Whether one kernel computes all: it would use the moments of this peer."""
        return False

    @fused.setter
    def fused(self, value: bool | None) -> None:
        """Keras decides by the shape of the inputs."""

    def _moments(
        self, inputs: Any, reduction_axes: Sequence[int], keep_dims: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        if self._is_traced_for_a_file():
            return super()._moments(inputs, reduction_axes, keep_dims, mask=mask)
        mask = None if mask is None else _like(inputs, mask)
        mean, variance = moments(inputs, reduction_axes, mask=mask)
        if keep_dims:
            return mean, variance
        return tf.squeeze(mean, reduction_axes), tf.squeeze(variance, reduction_axes)

    def _is_traced_for_a_file(self) -> bool:
        """A SavedModel holds the training graph, too; it must open without our operations."""
        utilities = self.kungfu_package.private("engine.base_layer_utils")
        return bool(utilities.call_context().saving)


def _like(inputs: Any, mask: Any) -> Any:
    """A mask without the last axis, for every element."""
    return tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))
