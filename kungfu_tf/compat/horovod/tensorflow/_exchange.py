"""The options of Horovod's optimizers and tapes, and the exchange that they ask for."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from horovod.common.process_sets import global_process_set, included
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import Adasum, Average, Sum

import kungfu_tf as kf
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.groups import Group
from kungfu_tf.ops.gradient_values import values_of, with_values
from kungfu_tf.ops.scaling import scaled

__all__ = ["Options", "exchanged", "options", "weights_of"]


@dataclasses.dataclass(frozen=True)
class Options:
    """What to do with gradients.

    Attributes:
        compression: A `Compressor`.
        sparse_as_dense: Whether sparse rows travel as a dense tensor.
        op: Average, Sum or Adasum.
        predivide: The part of the division that comes before the sum.
        passes: How many steps make an update.
        averages_passes: Whether their gradients are averaged, or added up.
        scales_local: Whether gradients of local variables are divided by the number of peers.
        process_set: Whose gradients they are. A process outside of it keeps its own.
    """

    compression: Any = Compression.none
    sparse_as_dense: bool = False
    op: int = Average
    predivide: float = 1.0
    passes: int = 1
    averages_passes: bool = False
    scales_local: bool = True
    process_set: Any = global_process_set

    @property
    def group(self) -> Group | None:
        """The group of the process set, if this process is in it."""
        return self.process_set.group if included(self.process_set) else None

    @property
    def scale_of_local(self) -> float | None:
        """The factor of the gradients of local variables, as `layers.local` takes it."""
        return None if self.scales_local else 1.0


def options(
    *,
    compression: Any,
    sparse_as_dense: bool,
    op: int,
    gradient_predivide_factor: float,
    num_groups: int,
    groups: Any,
    process_set: Any,
    scale_local_gradients: bool,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
) -> Options:
    """Checks arguments of Horovod's.

    Raises:
        ValueError: If they do not go together, or `process_set` has no number.
        NotImplementedError: If there is no such reduction of gradients.
    """
    included(process_set)
    if op not in (Average, Sum, Adasum):
        raise NotImplementedError(
            "gradients are averaged, added up or combined by Adasum: other reductions of them are "
            "missing in kungfu_tf.compat"
        )
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("average_aggregated_gradients does not go with op=Adasum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor goes with op=Average only")
    if num_groups != 0:
        warnings.warn("groups has replaced num_groups", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is not None and not (isinstance(groups, list) or groups > 0):
        raise ValueError("groups is a number of groups, or a list of lists of variables")
    if backward_passes_per_step < 1:
        raise ValueError("backward_passes_per_step must be at least 1")
    return Options(
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        predivide=gradient_predivide_factor,
        passes=backward_passes_per_step,
        averages_passes=average_aggregated_gradients,
        scales_local=scale_local_gradients,
        process_set=process_set,
    )


def exchanged(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    wanted: Options,
    *,
    name: str | None = None,
    step: Any = None,
    sums_rows: bool = False,
) -> list[Any]:
    """The gradients of all peers.

    A loss with an element for each sample is let through, as it is in Horovod: its gradient is that
    of the sum.
    """
    if not included(wanted.process_set):
        return list(gradients)
    given = [i for i, gradient in enumerate(gradients) if gradient is not None]
    result, sent, contexts = list(gradients), list(gradients), {}
    for i in given:
        gradient = gradients[i]
        if wanted.sparse_as_dense:
            gradient = tf.convert_to_tensor(gradient)
        values = scaled(tf.identity(values_of(gradient)), 1.0 / wanted.predivide)
        values, contexts[i] = wanted.compression.compress(values)
        sent[i] = with_values(gradient, values)
    if wanted.op == Adasum:
        received = _adasum(sent, name)
    else:
        kind = "mean" if wanted.op == Average else "sum"
        received = mean_gradients(
            sent, variables, name=name, step=step, sums_rows=sums_rows, op=kind
        )
    for i in given:
        values = wanted.compression.decompress(values_of(received[i]), contexts[i])
        result[i] = with_values(received[i], scaled(values, wanted.predivide))
    return result


def _adasum(gradients: list[Any], name: str | None) -> list[Any]:
    given = [i for i, gradient in enumerate(gradients) if gradient is not None]
    if any(isinstance(gradients[i], tf.IndexedSlices) for i in given):
        raise NotImplementedError("Adasum of rows is none in Horovod: sparse_as_dense=True")
    combined = kf.ops.group_adasum([gradients[i] for i in given], name=name)
    for i, value in zip(given, combined, strict=True):
        gradients[i] = value
    return gradients


def weights_of(local_layers: Any) -> list[Any]:
    """The trainable weights of a layer, or of several.

    Raises:
        ValueError: If they are not layers.
    """
    if isinstance(local_layers, tf.keras.layers.Layer):
        local_layers = [local_layers]
    layers = list(local_layers or [])
    if not all(isinstance(layer, tf.keras.layers.Layer) for layer in layers):
        raise ValueError("local_layers are layers of Keras")
    return [variable for layer in layers for variable in layer.trainable_weights]
