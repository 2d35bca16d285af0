"""Horovod's functions for Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from horovod import tensorflow as hvd
from horovod.common.util import is_version_greater_equal_than
from horovod.tensorflow import (
    Average,
    Compression,
    ProcessSet,
    Sum,
    add_process_set,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from horovod.tensorflow.keras import callbacks, elastic

from kungfu_tf.upstream import generations

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "ProcessSet",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_initialized",
    "is_version_greater_equal_than",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def DistributedOptimizer(  # noqa: N802 (Horovod's)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Lets an optimizer of Keras use the gradients of all processes.

    Raises:
        ValueError: If `op` is neither Average nor Sum.
    """
    if op not in (Average, Sum):
        raise ValueError("op is Average or Sum")
    return hvd.DistributedOptimizer(
        optimizer,
        name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        backward_passes_per_step=backward_passes_per_step,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        average_aggregated_gradients=average_aggregated_gradients,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def broadcast_global_variables(root_rank: int) -> Any:
    """Gives all processes the global variables of one of them. In a graph only."""
    return _evaluated(hvd.broadcast_global_variables(root_rank))


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """The reduction of a value over all processes; by default the mean."""
    del name
    return _evaluated(
        hvd.allreduce(
            tf.constant(value),
            average,
            compression=compression,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """The rows of all processes."""
    del name
    return _evaluated(hvd.allgather(tf.constant(value)))


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The value of one process."""
    del name
    return _evaluated(hvd.broadcast(tf.constant(value), root_rank))


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """This process' rows of the reduction of a value; by default of the mean."""
    del name
    return _evaluated(hvd.reducescatter(tf.constant(value), op=op))


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Loads a model, whose optimizer then uses the gradients of all processes."""
    del legacy_opts
    known = {cls.__name__: cls for cls in custom_optimizers or []}
    model = tf.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not generations.is_wrapped(optimizer):
        DistributedOptimizer(optimizer, compression=compression)
    return model


def _evaluated(result: Any) -> Any:
    if tf.executing_eagerly():
        return result
    return tf.compat.v1.keras.backend.get_session().run(result)
